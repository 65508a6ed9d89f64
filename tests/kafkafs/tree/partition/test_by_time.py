"""`time/` of a partition: links for instants, folders for periods, the days that hold records."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Kind, Link
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import (
    DAY_MS,
    START_MS,
    BuiltLog,
    content_of,
    look_again,
    names_in,
    offsets_of,
    tree_over,
)

DAY_0 = 19_675 * DAY_MS  # 2023-11-14


def one(offset: int, timestamp: int) -> bytes:
    return builders.batch([Rec(b"v%d" % offset, timestamp=timestamp)], offset)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    log = BuiltLog(tmp_path / "data")
    times = [DAY_0, DAY_0 + 1000, DAY_0 + DAY_MS, DAY_0 + 5 * DAY_MS, DAY_0 + 5 * DAY_MS + 1]
    log.segment([one(offset, time) for offset, time in enumerate(times)], 0)
    return log


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    with tree_over(log.log_dir) as tree:
        yield tree


def target(tree: Tree, name: str) -> str:
    node = tree.resolve(f"orders-0/time/{name}")
    assert isinstance(node, Link)
    assert node.attrs().kind is Kind.LINK
    assert node.attrs().size == len(node.target)
    return node.target


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("2023-11-14T00:00:00Z", 0), ("20231114T000000Z", 0), ("2023-11-14T00:00:00.001Z", 1),
        ("2023-11-14T01:00:00+01:00", 0), ("2023-11-14T00:00:02Z", 2), (f"{DAY_0 + 1001}", 2),
        (f"{DAY_0 + DAY_MS + 1}", 3), ("0", 0), ("1970-01-01T00:00:00Z", 0), ("latest", 4),
        ("earliest", 0),
    ],
)  # fmt: skip
def test_an_instant_links_to_the_first_record_at_or_after_it(
    tree: Tree, name: str, offset: int
) -> None:
    assert target(tree, name) == f"../offset/{offset}"


def test_after_the_newest_record_there_is_nothing(tree: Tree) -> None:
    with pytest.raises(NotFound):
        tree.resolve("orders-0/time/2023-11-20T00:00:00Z")


@pytest.mark.parametrize(
    ("name", "offsets"),
    [
        ("2023-11-14", [0, 1]), ("2023-11-15", [2]), ("2023-11-16", []), ("2023-11-19", [3, 4]),
        ("2023-11", [0, 1, 2, 3, 4]), ("2023", [0, 1, 2, 3, 4]), ("2022", []),
        ("2023-11-14T00", [0, 1]), ("2023-11-14T00:01", []), ("2023-11-14T01", []),
        ("2023-11-14..2023-11-19", [0, 1, 2]), ("..2023-11-15", [0, 1]), ("2023-11-15..", [2, 3, 4]),
        (f"{DAY_0 + 1000}..{DAY_0 + DAY_MS}", [1]), (f"{DAY_0 + 1}..{DAY_0 + 1}", []),
        ("2030..", []),
    ],
)  # fmt: skip
def test_a_period_is_a_range_of_offsets(tree: Tree, name: str, offsets: list[int]) -> None:
    folder = tree.resolve(f"orders-0/time/{name}")
    assert names_in(folder)[0] == "README.txt"
    records = tree.resolve(f"orders-0/time/{name}/records.jsonl")
    assert bool(records.attrs().size) == bool(offsets)
    assert offsets_of(records) == offsets
    assert records.attrs().size == len(content_of(records))


def test_the_listing_is_the_bounds_and_the_days_with_records(tree: Tree) -> None:
    assert names_in(tree.resolve("orders-0/time")) == [
        "README.txt", "earliest", "latest", "2023-11-14", "2023-11-15", "2023-11-19",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("2023", {"11": "../2023-11"}),
        ("2023-11", {"14": "../2023-11-14", "15": "../2023-11-15", "19": "../2023-11-19"}),
        ("2023-11-14", {"00": "../2023-11-14T00"}),
        ("2023-11-14T00", {"00": "../2023-11-14T00:00"}),
        ("2023-11-14T00:00", {}), ("2023-11-14..2023-11-19", {}), ("20231114", {}), ("2022", {}),
    ],
)  # fmt: skip
def test_a_period_lists_links_to_its_parts_with_records(
    tree: Tree, name: str, parts: dict[str, str]
) -> None:
    folder = tree.resolve(f"orders-0/time/{name}")
    assert names_in(folder) == ["README.txt", *parts]
    for part, leads_to in parts.items():
        assert target(tree, f"{name}/{part}") == leads_to
        content_of(tree.resolve(f"orders-0/time/{name}/{part}/records.jsonl"))
    with pytest.raises(NotFound):
        tree.resolve(f"orders-0/time/{name}/99")


def test_a_day_is_listed_by_where_its_period_is_not_by_stray_timestamps(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "jumps")
    times = [DAY_0 + DAY_MS, DAY_0, DAY_0 + 3 * DAY_MS, DAY_0 + 2 * DAY_MS]
    log.segment([one(offset, time) for offset, time in enumerate(times)], 0)
    with tree_over(log.log_dir) as tree:
        days = names_in(tree.resolve("orders-0/time"))[3:]
        assert days == ["2023-11-15", "2023-11-17"]
        found = [offsets_of(tree.resolve(f"orders-0/time/{day}/records.jsonl")) for day in days]
        assert found == [[0, 1], [2, 3]]


def test_timestamps_that_no_calendar_has_end_the_listing(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "far")
    log.segment([one(0, -1), one(1, -(10**15)), one(2, DAY_0), one(3, 2**62)], 0)
    with tree_over(log.log_dir) as tree:
        assert names_in(tree.resolve("orders-0/time"))[3:] == ["2023-11-14"]


def test_a_period_that_is_not_over_takes_in_what_is_written(tree: Tree, log: BuiltLog) -> None:
    records = tree.resolve("orders-0/time/2023-11-19/records.jsonl")
    assert offsets_of(records) == [3, 4]
    log.append(one(5, DAY_0 + 5 * DAY_MS + 2))
    look_again(tree)
    assert offsets_of(records) == [3, 4, 5]
    log.append(one(6, DAY_0 + 6 * DAY_MS))
    log.append(one(7, DAY_0 + 5 * DAY_MS + 3))
    look_again(tree)
    assert offsets_of(records) == [3, 4, 5]
    assert names_in(tree.resolve("orders-0/time"))[-1] == "2023-11-20"


def test_link_and_file_have_the_same_time_each_look(tree: Tree) -> None:
    path = f"orders-0/time/{START_MS}"
    assert tree.resolve(path).attrs() == tree.resolve(path).attrs()
