"""Options are the connector's, with its words where it refuses."""

from __future__ import annotations

import pytest

from engine.cut.moment import Moment
from engine.units import TopicPartition
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.options.offset_limits import (
    EARLIEST,
    LATEST,
    Extreme,
    GlobalTimestamp,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafkafs.spark.source.options.partition_choice import ALL, Assign, Subscribe, SubscribePattern
from kafkafs.spark.source.options.read_options import ReadOptions, parse_options

PATH = {"path": "/logs"}


def parsed(**options: str) -> ReadOptions:
    return parse_options(PATH | options)


def test_a_path_alone_reads_everything_from_the_beginning() -> None:
    assert parsed() == ReadOptions(paths=("/logs",))
    assert parsed().choice is ALL


def test_a_moment_is_of_a_batch() -> None:
    assert parsed(at="before-delete:orders").at == Moment(deleted="orders")
    with pytest.raises(OptionError, match="'at' is a time, orders-0@500"):
        parsed(at="soon")
    with pytest.raises(OptionError, match="'at' is for a batch"):
        parse_options(PATH | {"at": "-2h"}, streaming=True)


def test_names_may_be_in_any_case_and_values_padded() -> None:
    options = parsed(STARTINGOFFSETS=" Earliest ", failondataloss=" FALSE ", SplitBytes="16m")
    assert (options.start, options.fail_on_data_loss) == (Extreme(EARLIEST), False)
    assert options.split_bytes == 16 << 20


def test_a_stream_starts_at_the_end() -> None:
    assert parse_options(PATH, streaming=True).start == Extreme(LATEST)


def test_a_timestamp_for_all_comes_before_timestamps_by_partition_and_offsets() -> None:
    offsets = {"startingOffsets": '{"t":{"0":5}}'}
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":7}}'}
    partition = TopicPartition("t", 0)
    assert parsed(**offsets).start == SpecificOffsets({partition: 5})
    assert parsed(**offsets, **by_partition).start == SpecificTimestamps({partition: 7})
    everything = parsed(**offsets, **by_partition, startingTimestamp="9")
    assert everything.start == GlobalTimestamp(9)


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        ({"subscribe": " a, b,,a "}, Subscribe(("a", "b"))),
        ({"subscribePattern": " ev.* "}, SubscribePattern("ev.*")),
        ({"assign": '{"a":[1,0]}'}, Assign((TopicPartition("a", 1), TopicPartition("a", 0)))),
    ],
)
def test_partitions_are_chosen(options: dict[str, str], choice: object) -> None:
    assert parsed(**options).choice == choice


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "a", "assign": "{}"}, "Only one of the following options"),
        ({"subscribe": " , "}, "No topics to subscribe to"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "("}, "not a regular expression"),
        ({"assign": "a"}, "No topicpartitions to assign"),
        ({"assign": '{"a":0}'}, r'Expected e.g. \{"topicA":\[0,1\],"topicB":\[0,1\]\}, got'),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "Expected e.g. "),
        ({"startingOffsets": "nonsense"}, "Expected e.g. "),
        ({"startingOffsets": "[" * 100_000}, "Expected e.g. "),
        ({"startingTimestamp": "yesterday"}, "Expected a single long value, got yesterday"),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'},
            "UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET",
        ),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"1":9}}'},
            "MISMATCHED_TOPIC_PARTITIONS_BETWEEN_START_OFFSET_AND_END_OFFSET",
        ),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "UNRESOLVED_START_OFFSET"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition must be positive"),
        ({"minPartitions": "many"}, "'minPartitions' is a number"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "is higher than the max"),
        ({"maxTriggerDelay": "soon"}, "a time such as 15m"),
        ({"splitBytes": "0"}, "a size such as 64m"),
        ({"onCorrupt": "ignore"}, "'onCorrupt' is one of fail, skip, row"),
        ({"failOnDataLoss": "yes"}, "'failOnDataLoss' is true or false"),
        ({"kafka.isolation.level": "serializable"}, "read_uncommitted, read_committed"),
        ({"kafka.auto.offset.reset": "earliest"}, "'auto.offset.reset' is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "'enable.auto.commit' is not supported"),
        ({"startingOffset": "earliest"}, "unknown option 'startingoffset'; is it startingOffsets"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parsed(**options)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="ending offset not valid in streaming queries"):
        parse_options(PATH | {"endingOffsets": "latest"}, streaming=True)
    with pytest.raises(OptionError, match="ending timestamp not valid in streaming queries"):
        parse_options(PATH | {"endingTimestamp": "5"}, streaming=True)


def test_without_a_path_it_says_what_a_path_is() -> None:
    with pytest.raises(OptionError, match="'path' must be specified: a broker's log dir"):
        parse_options({"subscribe": "a"})
    with pytest.raises(OptionError, match=r"'path' must be specified: .* make a temporary view"):
        parse_options({})


def test_paths_come_as_a_list_or_separated_by_commas() -> None:
    assert parse_options({"paths": '["/a","/b,c"]'}).paths == ("/a", "/b,c")
    assert parse_options({"path": "/a, /b"}).paths == ("/a", "/b")


def test_what_only_a_broker_needs_is_ignored() -> None:
    options = parsed(**{"kafka.bootstrap.servers": "b:9092", "groupIdPrefix": "x"})
    assert options.ignored == ("kafka.bootstrap.servers", "groupidprefix")
