"""Periods of logs whose transaction markers have other times than their records; exact.jsonl."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.log.view.log_view import LogView
from kafkafs.tree.lookups import offsets_of_period
from kafkafs.tree.path_names import Period
from kafkafs.tree.selection import select
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import NO_PRODUCER, Producer, Rec
from tests.kafkafs.built_logs import (
    DAY_MS,
    BuiltLog,
    content_of,
    lines_of,
    names_in,
    offsets_of,
    tree_over,
)

OLD = 19_675 * DAY_MS  # 2023-11-14, the records
NOW = OLD + 400 * DAY_MS  # 2024-12-18, the markers
PRODUCER = Producer(id=7, epoch=0, sequence=0)


def records(first: int, timestamps: list[int], *, transactional: bool = True) -> bytes:
    some = [Rec(b"v%d" % (first + i), None, time) for i, time in enumerate(timestamps)]
    producer = Producer(id=7, epoch=0, sequence=first) if transactional else NO_PRODUCER
    return builders.batch(some, first, producer=producer, transactional=transactional)


def marker(offset: int, timestamp: int = NOW) -> bytes:
    return builders.end_marker(offset, PRODUCER, commit=True, timestamp=timestamp)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    """Ten transactions of two records each, one a day, all of them ended today; in two segments."""
    log = BuiltLog(tmp_path / "data")
    batches = []
    for day in range(10):
        time = OLD + day * DAY_MS
        batches += [records(3 * day, [time, time + 1000]), marker(3 * day + 2, NOW + day)]
    log.segment(batches[:10], 0, index_interval=1)
    log.segment(batches[10:], 15, index_interval=1)
    return log


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    with tree_over(log.log_dir) as tree:
        yield tree


def period(tree: Tree, name: str) -> list[int]:
    return offsets_of(tree.resolve(f"orders-0/time/{name}/records.jsonl"))


def test_records_that_were_replayed_with_old_times_are_in_their_days(tree: Tree) -> None:
    assert period(tree, "2023-11-14") == [0, 1, 2]
    assert period(tree, "2023-11-16") == [6, 7, 8]
    assert period(tree, "2023-11-19") == [15, 16, 17]
    assert period(tree, "2023-11-23") == [27, 28, 29]
    assert period(tree, "2023-11-14..2023-11-17") == list(range(9))
    assert period(tree, "..2023-11-17") == list(range(9))


def test_the_day_of_the_markers_holds_nothing_and_is_not_listed(tree: Tree) -> None:
    assert period(tree, "2024-12-18") == []
    days = [f"2023-11-{day}" for day in range(14, 24)]
    assert names_in(tree.resolve("orders-0/time")) == [
        "README.txt", "earliest", "latest", *days,
    ]  # fmt: skip


def test_an_instant_stays_the_answer_of_list_offsets(tree: Tree) -> None:
    assert tree.resolve("orders-0/time/2023-11-16T00:00:00Z").target == "../offset/2"  # type: ignore[attr-defined]
    assert tree.resolve("orders-0/time/2024-12-18T00:00:00Z").target == "../offset/2"  # type: ignore[attr-defined]


def test_all_that_cuts_to_a_period_agrees(tree: Tree) -> None:
    wanted = period(tree, "2023-11-16")
    slices = content_of(tree.resolve("orders-0/time/2023-11-16/log/00000000000000000006.log"))
    at_root = content_of(tree.resolve("time/2023-11-16/orders-0/00000000000000000006.log"))
    assert (
        slices
        == at_root
        == records(6, [OLD + 2 * DAY_MS, OLD + 2 * DAY_MS + 1000]) + marker(8, NOW + 2)
    )
    assert names_in(tree.resolve("time/2023-11-16")) == ["orders-0"]
    assert names_in(tree.resolve("time/2024-12-18")) == []
    (searched,) = select(tree.source, "orders-0/time/2023-11-16")
    assert [searched.from_offset, searched.to_offset - 1] == [wanted[0], wanted[-1]]


def test_rebuild_and_dump_cut_alike(
    log: BuiltLog, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from kafkafs.cli import main

    bounds = ["--from", "2023-11-16T00:00:00Z", "--to", "2023-11-17T00:00:00Z"]
    with pytest.raises(SystemExit):
        main(["rebuild", "--dry-run", str(log.log_dir), *bounds])
    assert b"orders-0: offsets 6 to 9, 3 records" in capfdbinary.readouterr().out
    with pytest.raises(SystemExit):
        main(["dump", str(log.folder), "--json", "--deep-iteration", *bounds])
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [line["offset"] for line in lines if line["type"] == "record"] == [6, 7, 8]


def view_of(source_path: Path) -> LogView:
    return open_source(str(source_path)).partitions()["orders-0"].view()


def test_the_largest_record_time_passes_over_markers(log: BuiltLog) -> None:
    first, second = view_of(log.log_dir).segments
    assert first.max_timestamp.timestamp == NOW + 4
    assert first.newest(records_only=True).timestamp == OLD + 4 * DAY_MS + 1000
    assert second.newest(records_only=True).timestamp == OLD + 9 * DAY_MS + 1000


def test_what_is_appended_counts(log: BuiltLog) -> None:
    source = open_source(str(log.log_dir))
    partition = source.partitions()["orders-0"]
    day = Period(OLD + 20 * DAY_MS, OLD + 21 * DAY_MS)
    assert offsets_of_period(partition.view(), day) == (30, 30)
    log.append(marker(30), records(31, [OLD + 20 * DAY_MS], transactional=False), marker(32))
    assert offsets_of_period(partition.view(0.0), day) == (31, 33)
    source.close()


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_those_of_a_search_record_by_record(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    log = BuiltLog(tmp_path / "data")
    told: list[tuple[int, int, bool]] = []
    offset = 0
    for _ in range(random_.randint(1, 4)):
        base, batches = offset, []
        for _ in range(random_.randint(1, 30)):
            if random_.random() < 0.4:
                time = OLD + random_.randint(0, 100)
                batches.append(marker(offset, time))
                told.append((offset, time, True))
                offset += 1
            else:
                times = [OLD + random_.randint(0, 100) for _ in range(random_.randint(1, 3))]
                batches.append(records(offset, times, transactional=random_.random() < 0.5))
                told += [(offset + i, time, False) for i, time in enumerate(times)]
                offset += len(times)
        log.segment(batches, base, index_interval=random_.choice([1, 200, 4096]))
    view = view_of(log.log_dir)
    with tree_over(log.log_dir) as tree:
        for _ in range(20):
            start = OLD + random_.randint(-5, 105)
            end = start + random_.randint(0, 40)
            bounds = [
                next(
                    (each for each, time, control in told if time >= bound and not control), offset
                )
                for bound in (start, end)
            ]
            wanted = (bounds[0], max(bounds))
            assert offsets_of_period(view, Period(start, end)) == wanted
            listed = next((each for each, time, _ in told if time >= start), None)
            found = view.offset_for_time(start)
            assert (None if found is None else found.offset) == listed
            exact = offsets_of(tree.resolve(f"orders-0/time/{start}..{end}/exact.jsonl"))
            assert exact == [each for each, time, _ in told if start <= time < end]


# exact.jsonl


def test_exact_has_the_records_of_the_period_wherever_they_lie(tree: Tree) -> None:
    assert offsets_of(tree.resolve("orders-0/time/2023-11-16/exact.jsonl")) == [6, 7]
    assert offsets_of(tree.resolve("orders-0/time/2024-12-18/exact.jsonl")) == list(range(2, 30, 3))
    assert offsets_of(tree.resolve("orders-0/time/1999/exact.jsonl")) == []


def test_exact_resolves_and_is_not_listed(tree: Tree) -> None:
    assert "exact.jsonl" not in names_in(tree.resolve("orders-0/time/2023-11-16"))


def test_exact_reads_the_same_from_any_position(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    random_ = random.Random(5)
    batches = []
    for number in range(400):
        some = [
            Rec(random_.randbytes(900).hex().encode(), None, OLD + random_.choice([0, DAY_MS]))
            for _ in range(5)
        ]
        batches.append(builders.batch(some, number * 5))
    log.segment(batches, 0)
    with tree_over(log.log_dir) as tree:
        node = tree.resolve("orders-0/time/2023-11-14/exact.jsonl")
        text = content_of(node)
        whole = content_of(tree.resolve("orders-0/offset/0.."))
        chosen = [line for line in whole.splitlines(True) if json.loads(line)["timestamp"] == OLD]
        assert text == b"".join(chosen) == b"".join(node.chunks())  # type: ignore[attr-defined]
        assert len(text) > 1_500_000
        content = node.open()  # type: ignore[attr-defined]
        assert content.size == len(text)
        for _ in range(40):
            at, size = random_.randrange(len(text)), random_.randrange(200_000)
            assert content.read(at, size) == text[at : at + size]
        content.close()


def test_exact_says_where_records_may_be_missing(log: BuiltLog) -> None:
    path = log.folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[len(records(0, [OLD, OLD + 1000]) + marker(2)) + 70] ^= 1
    path.write_bytes(data)
    with tree_over(log.log_dir) as tree:
        lines = lines_of(tree.resolve("orders-0/time/2023-11-16/exact.jsonl"))
    assert [line.get("offset", "error") for line in lines] == ["error", 6, 7]
    with tree_over(log.log_dir) as tree:
        lines = lines_of(tree.resolve("orders-0/time/2023-11-14/exact.jsonl"))
    assert [line.get("offset", "error") for line in lines] == [0, 1, "error"]


def test_answers_are_kept_while_a_log_grows_and_dropped_when_it_is_cut(log: BuiltLog) -> None:
    source = open_source(str(log.log_dir))
    partition = source.partitions()["orders-0"]
    first, third = Period(OLD, OLD + DAY_MS), Period(OLD + 2 * DAY_MS, OLD + 3 * DAY_MS)
    assert offsets_of_period(partition.view(), first) == (0, 3)
    log.append(records(30, [OLD + 1], transactional=False))
    assert offsets_of_period(partition.view(0.0), first) == (0, 3)
    log.start_at(4)
    (log.folder / "00000000000000000015.log").write_bytes(b"")
    for view in (
        partition.view(0.0),
        open_source(str(log.log_dir)).partitions()["orders-0"].view(),
    ):
        assert view.log_end_offset == 15
        assert offsets_of_period(view, third) == (6, 9)
        assert offsets_of_period(view, Period(OLD + 5 * DAY_MS, None)) == (15, 15)
    source.close()
