"""Splits cover what was asked for once, whatever their size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.budgets import MiB
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.units import TopicPartition
from kafkafs.spark.errors import DataLossError, OptionError
from kafkafs.spark.source.options.partition_choice import choose
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.planning.batch_plan import for_counting, tasks_of
from kafkafs.spark.source.planning.offset_ranges import resolve_batch
from kafkafs.spark.source.planning.task_ranges import split_ranges
from kafkafs.table.splits.split import QueryRange, Split, plan
from tests.fixtures_data import log_dir

T = TopicPartition("t", 0)
ORDERS = TopicPartition("orders", 0)


def view_of(folder: Path) -> LogView:
    return next(iter(open_source(str(folder)).partitions().values())).view()


def offsets_in(view: LogView, wanted: QueryRange, size: int) -> list[int]:
    """The base offsets of the batches in all splits, each as often as it comes."""
    found = []
    for split in plan(view, wanted, size):
        assert split.size > 0
        segment = view.segments.get(split.segment)
        assert segment is not None
        for item in segment.scan(split.position, split.end_position, next_offset=split.next_offset):
            assert isinstance(item, BatchRun)
            found += item.table["base_offset"].tolist()
            assert split.part_start <= item.table["base_offset"][0]
            assert item.next_offset <= split.part_stop
    return found


@pytest.mark.parametrize("partition", ["orders-0", "compacted-0", "txn-0", "codec-zstd-0"])
@pytest.mark.parametrize("size", [1, 5000, 40_000, 1 << 30])
@pytest.mark.parametrize("indexed", [True, False])
def test_each_batch_is_in_one_split(
    tmp_path: Path, partition: str, size: int, indexed: bool
) -> None:
    folder = tmp_path / partition
    shutil.copytree(log_dir("current") / partition, folder)
    if not indexed:
        for index in folder.glob("*.index"):
            index.unlink()
    view = view_of(folder)
    wanted = QueryRange(view.partition, view.log_start_offset, view.log_end_offset)
    whole = offsets_in(view, wanted, 1 << 40)
    assert offsets_in(view, wanted, size) == whole
    assert len(whole) > 3


def test_an_index_that_lies_cuts_nowhere_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(log_dir("current") / "orders-0", folder)
    for index in folder.glob("*.index"):
        data = bytearray(index.read_bytes())
        for at in range(7, len(data), 8):
            data[at] ^= 3
        index.write_bytes(data)
    view = view_of(folder)
    wanted = QueryRange(view.partition, 0, view.log_end_offset)
    assert offsets_in(view, wanted, 5000) == offsets_in(view, wanted, 1 << 40)


def test_a_part_of_a_log_takes_only_its_bytes() -> None:
    view = view_of(log_dir("current") / "orders-0")
    (split,) = plan(view, QueryRange(view.partition, 30, 31), 1 << 30)
    assert split.size < 3000


def test_ranges_are_divided_as_the_connector_divides_them() -> None:
    ranges = [QueryRange(TopicPartition("t", number), 0, 1000) for number in range(4)]
    options = parse_options({"path": "/x", "minPartitions": "10"})
    assert len(split_ranges(ranges, options)) == 12
    options = parse_options({"path": "/x", "maxRecordsPerPartition": "300"})
    pieces = split_ranges(ranges[:1], options)
    assert [(each.start, each.stop) for each in pieces] == [
        (0, 250), (250, 500), (500, 750), (750, 1000),
    ]  # fmt: skip


def resolved(**options: str) -> list[QueryRange]:
    given = parse_options({"path": str(log_dir("current"))} | options)
    source = open_source(list(given.paths))
    logs = choose(source.partitions(), given.choice, internal=given.internal)
    return resolve_batch({each: log.view() for each, log in logs.items()}, given)


def test_empty_partitions_and_internal_topics_are_left_out_of_everything() -> None:
    topics = {each.partition.topic for each in resolved()}
    assert "orders" in topics
    assert not topics & {"empty", "__consumer_offsets", "doomed"}
    assert any(
        "__consumer" in each.partition.topic for each in resolved(includeInternalTopics="true")
    )


def test_a_pattern_is_found_anywhere_in_the_name() -> None:
    assert {each.partition.topic for each in resolved(subscribePattern="rder")} >= {"orders"}


def test_offsets_and_their_codes() -> None:
    (whole,) = resolved(assign='{"orders":[0]}')
    (part,) = resolved(
        assign='{"orders":[0]}',
        startingOffsets='{"orders":{"0":-2}}',
        endingOffsets='{"orders":{"0":50}}',
    )
    assert part == QueryRange(ORDERS, whole.start, 50)


def test_a_transaction_that_never_ended_ends_a_committed_read() -> None:
    (every,) = resolved(subscribe="open-txn")
    (committed,) = resolved(subscribe="open-txn", isolationLevel="read_committed")
    assert committed.stop < every.stop


def test_what_is_not_there_is_a_loss_unless_that_is_said_to_be_fine() -> None:
    beyond = {
        "assign": '{"trimmed":[0]}',
        "startingOffsets": '{"trimmed":{"0":0}}',
        "endingOffsets": '{"trimmed":{"0":99999999}}',
    }
    with pytest.raises(DataLossError, match="COULD_NOT_READ_OFFSET_RANGE"):
        resolved(**beyond)
    (read,) = resolved(**beyond, failOnDataLoss="false")
    assert (read,) == tuple(resolved(assign='{"trimmed":[0]}'))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "orders,nothing"}, "UnknownTopicOrPartition"),
        ({"assign": '{"nothing":[0]}'}, "UnknownTopicOrPartition"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"7":1}}'},
            "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        ),
        (
            {"subscribe": "orders", "endingOffsetsByTimestamp": '{"orders":{"7":1}}'},
            "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
        ),
        (
            {"assign": '{"orders":[0]}', "startingOffsets": '{"orders":{"0":99999999}}'},
            "RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        ),
        (
            {"assign": '{"orders":[0]}', "startingTimestamp": "99999999999999"},
            "No offset matched from request of topic-partition orders-0",
        ),
    ],
)
def test_limits_that_do_not_fit_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        resolved(**options)


def test_a_partition_that_is_not_there_is_dropped_from_an_assignment() -> None:
    assert [each.partition for each in resolved(assign='{"orders":[0,77]}')] == [ORDERS]


def test_a_starting_timestamp_behind_the_last_record_may_mean_the_end() -> None:
    late = {"assign": '{"orders":[0]}', "startingTimestamp": "99999999999999"}
    assert resolved(**late, startingOffsetsByTimestampStrategy="latest") == []


def of_size(size: int, number: int) -> Split:
    return Split(
        source="/logs/t-0", path="/logs/t-0/0.log", partition=T, segment=number, identity=(1, number), position=0,
        end_position=size, next_offset=0, start=0, stop=9, part_start=0, part_stop=9, file_size=size,
    )  # fmt: skip


def test_small_splits_share_a_task_and_large_ones_have_their_own() -> None:
    sizes = [100, 200, 60 * MiB, 300, 7 * MiB, 64 * MiB]
    splits = [of_size(size, number) for number, size in enumerate(sizes)]
    tasks = tasks_of(splits, parse_options({"path": "/logs"}))
    numbers = [[split.segment for split in task] for task in tasks]
    assert numbers == [[0, 1], [2], [3], [4], [5]]


@pytest.mark.parametrize("said", [{"minPartitions": "1"}, {"maxRecordsPerPartition": "9"}])
def test_where_the_number_of_tasks_is_said_each_split_has_one(said: dict[str, str]) -> None:
    splits = [of_size(100 + number, number) for number in range(30)]
    tasks = tasks_of(splits, parse_options({"path": "/logs"} | said))
    assert tasks == [(split,) for split in splits]


def test_thousands_of_splits_are_hundreds_of_tasks() -> None:
    splits = [of_size(MiB, number) for number in range(20_000)]
    tasks = tasks_of(splits, parse_options({"path": "/logs"}))
    assert 200 <= len(tasks) < 1000
    assert {split.segment for task in tasks for split in task} == set(range(20_000))
    assert max(sum(split.size for split in task) for task in tasks) <= 64 * MiB


def test_tasks_that_only_count_read_more_unless_it_was_said_how_much() -> None:
    assert for_counting(parse_options({"path": "/logs"})).split_bytes == 256 * MiB
    said = parse_options({"path": "/logs", "splitBytes": "16m"})
    assert for_counting(said).split_bytes == 16 * MiB


def test_nothing_to_read_is_no_task() -> None:
    assert tasks_of([], parse_options({"path": "/logs"})) == []
