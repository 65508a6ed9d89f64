"""The whole tree over directories that real brokers wrote: what it shows is what consumers saw."""

import base64
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from engine.topics.internal_topics import decoder_for
from kafkafs.tree.errors import NotADirectory, NotFound
from kafkafs.tree.node import ROOT_INODE, Directory, File, Kind, Link, Node
from kafkafs.tree.tree import Tree
from tests.fixtures_data import (
    KINDS,
    WITH_TRUTH,
    TruthRecord,
    log_dir,
    partitions,
    truth_offsets,
    truth_partitions,
    truth_records,
)
from tests.kafkafs.built_logs import below, content_of, lines_of, names_in, tree_over

PARTITIONS = [(kind, name) for kind in WITH_TRUTH for name in truth_partitions(kind)]
TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


@pytest.fixture(scope="module")
def trees() -> Iterator[dict[str, Tree]]:
    with ExitStack() as stack:
        yield {kind: stack.enter_context(tree_over(log_dir(kind))) for kind in KINDS}


@pytest.fixture(params=PARTITIONS, ids=lambda pair: f"{pair[0]}-{pair[1][:30]}")
def partition(request: pytest.FixtureRequest, trees: dict[str, Tree]) -> tuple[Tree, str, str]:
    kind, name = request.param
    return trees[kind], kind, name


def as_bytes(fields: dict[str, Any], name: str) -> object:
    """A field's bytes, or for JSON the value itself."""
    value, encoding = fields[name], fields.get(f"{name}Encoding")
    if value is None or encoding == "json":
        return value
    return base64.b64decode(value) if encoding == "base64" else value.encode()


def same(fields: dict[str, Any], name: str, truth: bytes | None) -> bool:
    if fields.get(f"{name}Encoding") == "json":
        return truth is not None and json.loads(truth) == fields[name]
    return as_bytes(fields, name) == truth


def assert_same(line: dict[str, Any], truth: TruthRecord) -> None:
    timed = truth.timestamp_type != 0
    assert line["offset"] == truth.offset
    assert line["timestampType"] == TIMESTAMP_TYPES[truth.timestamp_type]
    assert line["timestamp"] == (truth.timestamp if timed else -1)
    assert line["leaderEpoch"] == (-1 if truth.leader_epoch is None else truth.leader_epoch)
    if (decoder := decoder_for(line["topic"])) is None:
        assert same(line, "key", truth.key)
        assert same(line, "value", truth.value)
    else:
        decoded = decoder.decode(truth.key, truth.value)
        assert (line["key"], line["value"]) == (decoded.key, decoded.value)
    assert [header["key"] for header in line["headers"]] == [key for key, _ in truth.headers]
    for header, (_, value) in zip(line["headers"], truth.headers, strict=True):
        assert same(header, "value", value)


def records_in(tree: Tree, folder: str) -> list[dict[str, Any]]:
    node = tree.resolve(folder)
    found = []
    for name in names_in(node):
        found += lines_of(tree.follow(tree.resolve(f"{folder}/{name}")))
    return found


# -- records ---------------------------------------------------------------------------------------


def test_records_are_what_a_read_uncommitted_consumer_sees(
    partition: tuple[Tree, str, str],
) -> None:
    tree, kind, name = partition
    lines = records_in(tree, f"{name}/records")
    assert [line for line in lines if "error" in line] == []
    served = [line for line in lines if "control" not in line and "belowLogStart" not in line]
    truth = truth_records(kind, name)
    assert len(served) == len(truth)
    for line, record in zip(served, truth, strict=True):
        assert_same(line, record)


def test_committed_is_what_a_read_committed_consumer_sees(
    partition: tuple[Tree, str, str],
) -> None:
    tree, kind, name = partition
    lines = records_in(tree, f"{name}/committed")
    truth = truth_records(kind, name, committed=True)
    assert [line["offset"] for line in lines] == [record.offset for record in truth]
    for line, record in zip(lines, truth, strict=True):
        assert_same(line, record)


def test_every_record_is_a_file_with_its_key_and_value_beside_it(
    partition: tuple[Tree, str, str],
) -> None:
    tree, kind, name = partition
    folder = tree.resolve(f"{name}/offset")
    assert isinstance(folder, Directory)
    truth = truth_records(kind, name)
    for record in truth[:: max(len(truth) // 100, 1)]:
        (line,) = lines_of(folder.lookup(f"{record.offset}"))
        assert_same(line, record)
        for field, expected in ((".key", record.key), (".value", record.value)):
            if expected is None:
                with pytest.raises(NotFound):
                    folder.lookup(f"{record.offset}{field}")
            else:
                assert content_of(folder.lookup(f"{record.offset}{field}")) == expected


def test_offsets_that_no_record_has_are_not_there(partition: tuple[Tree, str, str]) -> None:
    tree, kind, name = partition
    folder = tree.resolve(f"{name}/offset")
    assert isinstance(folder, Directory)
    control = {line["offset"] for line in records_in(tree, f"{name}/records") if "control" in line}
    known = {record.offset for record in truth_records(kind, name)} | control
    end = truth_offsets(kind)[name]["latest"]
    absent = [offset for offset in range(end + 2) if offset not in known]
    for offset in absent[:: max(len(absent) // 50, 1)]:
        with pytest.raises(NotFound):
            folder.lookup(str(offset))


@pytest.mark.parametrize("name", ["__consumer_offsets-0", "__transaction_state-0"])
def test_a_record_of_an_internal_topic_has_the_line_that_it_has_among_others(
    trees: dict[str, Tree], name: str
) -> None:
    tree = trees["current"]
    lines = records_in(tree, f"{name}/records")
    assert lines
    for line in lines[:: max(len(lines) // 20, 1)]:
        assert lines_of(tree.resolve(f"{name}/offset/{line['offset']}")) == [line]


def test_a_deleted_record_is_not_served_with_its_neighbours(trees: dict[str, Tree]) -> None:
    folder = trees["current"].resolve("trimmed-0/offset")
    assert isinstance(folder, Directory)
    start = truth_offsets("current")["trimmed-0"]["earliest"]
    for offset in range(start, start + 5):
        assert lines_of(folder.lookup(f"{offset}"))
    with pytest.raises(NotFound):
        folder.lookup(f"{start - 1}")


def test_offsets_and_time_look_ups_are_the_brokers(partition: tuple[Tree, str, str]) -> None:
    tree, kind, name = partition
    truth = truth_offsets(kind)[name]
    state = json.loads(content_of(tree.resolve(f"{name}/state/offsets.json")))
    assert state["logStartOffset"] == truth["earliest"]
    assert state["logEndOffset"] == truth["latest"]
    assert state["lastStableOffset"] == truth["latest_committed"]
    for timestamp, offset in truth.get("for_times", {}).items():
        path = f"{name}/time/{int(timestamp):020}"
        if offset < 0:
            with pytest.raises(NotFound):
                tree.resolve(path)
        else:
            node = tree.resolve(path)
            assert isinstance(node, Link)
            assert node.target == f"../offset/{offset}"


def test_earliest_and_latest_lead_to_the_first_and_the_last_record(
    partition: tuple[Tree, str, str],
) -> None:
    tree, _, name = partition
    offsets = [
        line["offset"]
        for line in records_in(tree, f"{name}/records")
        if "belowLogStart" not in line
    ]
    for link, at in (("earliest", 0), ("latest", -1)):
        if not offsets:
            with pytest.raises(NotFound):
                tree.resolve(f"{name}/offset/{link}")
            continue
        node = tree.resolve(f"{name}/offset/{link}")
        assert isinstance(node, Link)
        assert node.target == str(offsets[at])
        other = tree.resolve(f"{name}/time/{link}")
        assert isinstance(other, Link)
        assert other.target == f"../offset/{offsets[at]}"


def test_ranges_are_the_lines_of_their_records(partition: tuple[Tree, str, str]) -> None:
    tree, _, name = partition
    lines = [line for line in records_in(tree, f"{name}/records") if "belowLogStart" not in line]
    end = json.loads(content_of(tree.resolve(f"{name}/state/offsets.json")))["logEndOffset"]
    middle = end // 2
    for text, start, stop in (
        ("0..", 0, end),
        (f"..{middle}", 0, middle),
        (f"{middle}..{middle + 7}", middle, middle + 7),
        (f"{middle}+5", middle, middle + 5),
        ("-3", end - 3, end),
        (f"{end}..", end, end),
    ):
        found = lines_of(tree.resolve(f"{name}/offset/{text}"))
        assert found == [line for line in lines if start <= line["offset"] < stop], text


def test_the_days_listed_hold_all_records_once(partition: tuple[Tree, str, str]) -> None:
    tree, _, name = partition
    served = [line for line in records_in(tree, f"{name}/records") if "belowLogStart" not in line]
    days = [day for day in names_in(tree.resolve(f"{name}/time")) if day[:1].isdigit()]
    found: list[dict[str, Any]] = []
    for day in days:
        lines = lines_of(tree.resolve(f"{name}/time/{day}/records.jsonl"))
        assert lines
        found += lines
    timed = [line["timestamp"] >= 0 for line in served]
    if all(timed):
        assert found == served
    else:
        assert len(found) <= len(served)


# -- the tree as a whole ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_is_listed_can_be_looked_up_and_read(
    trees: dict[str, Tree], kind: str
) -> None:
    tree = trees[kind]
    inodes: dict[int, str] = {ROOT_INODE: ""}
    for node in below(tree.root()):
        attrs = node.attrs()
        assert inodes.setdefault(attrs.inode, node.path) == node.path
        assert attrs.inode == node.inode
        assert attrs.kind is kind_of(node)
        assert attrs.nlink >= 1
        assert 0 <= attrs.mtime_ns < 2**63
        assert attrs.mode & 0o222 == 0 or attrs.kind is Kind.LINK
        assert all(name.startswith("user.kafka.") for name in node.xattrs())
        if isinstance(node, File):
            data = content_of(node)
            after = node.attrs()
            assert (after.size, after.exact) == (len(data), True), node.path
            assert bool(attrs.size) == bool(data), node.path
            assert b"".join(node.chunks()) == data, node.path
        elif isinstance(node, Link):
            folder = os.path.dirname(node.path)
            tree.resolve(os.path.normpath(os.path.join(folder, node.target))).attrs()


def kind_of(node: Node) -> Kind:
    if isinstance(node, Directory):
        return Kind.DIRECTORY
    return Kind.LINK if isinstance(node, Link) else Kind.FILE


@pytest.mark.parametrize("kind", KINDS)
def test_a_listing_goes_on_behind_any_of_its_entries(trees: dict[str, Tree], kind: str) -> None:
    root = trees[kind].root()
    for node in [root, *(node for node in below(root) if isinstance(node, Directory))]:
        entries = list(node.entries())
        cookies = [entry.cookie for entry in entries]
        assert cookies == sorted(set(cookies))
        assert all(cookie > 2 for cookie in cookies)
        for place, entry in enumerate(entries[:20]):
            assert next(node.entries(entry.cookie), None) == (
                entries[place + 1] if place + 1 < len(entries) else None
            )


@pytest.mark.parametrize("kind", KINDS)
def test_the_root_lists_every_partition_folder(trees: dict[str, Tree], kind: str) -> None:
    names = names_in(trees[kind].root())
    topics = {name.rpartition("-")[0] for name in partitions(kind)}
    sources = {
        "groups": "__consumer_offsets",
        "transactions": "__transaction_state",
        "cluster": "__cluster_metadata",
    }
    replayed = [name for name, topic in sources.items() if topic in topics]
    own = ["README.txt", ".kafkafs", "state", "time"]
    assert names == [*own, *replayed, *partitions(kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_segments_are_the_source_files_byte_for_byte(trees: dict[str, Tree], kind: str) -> None:
    for name in partitions(kind):
        folder = log_dir(kind) / name
        shown = trees[kind].resolve(f"{name}/segments")
        assert sorted(names_in(shown)) == sorted(entry.name for entry in folder.iterdir())
        for file in folder.iterdir():
            node = trees[kind].resolve(f"{name}/segments/{file.name}")
            assert content_of(node) == file.read_bytes()
            assert node.attrs().mtime_ns == file.stat().st_mtime_ns
            assert node.attrs().mode == file.stat().st_mode & 0o444


def test_two_trees_over_one_source_agree_on_inodes_sizes_and_times() -> None:
    def facts(tree: Tree) -> dict[str, tuple[int, int, int]]:
        found = {}
        for node in below(tree.resolve("orders-0")):
            if isinstance(node, File):
                content_of(node)
            attrs = node.attrs()
            found[node.path] = attrs.inode, attrs.size, attrs.mtime_ns
        return found

    with tree_over(log_dir("current")) as first, tree_over(log_dir("current")) as second:
        assert facts(first) == facts(second)


@pytest.mark.parametrize(
    "path",
    [
        "nothing", "orders-0/nothing", "orders-0/offset/", "/orders-0", "orders-0//offset",
        "orders-0/offset/x", "orders-0/offset/-1x", "orders-0/offset/+1", "orders-0/offset/1_0",
        "orders-0/offset/ 1", "orders-0/offset/٣", "orders-0/offset/9223372036854775808",
        "orders-0/offset/0.keys", "orders-0/offset/0.KEY", "orders-0/offset/5..3",
        "orders-0/time/2024-13-01", "orders-0/time/now", "orders-0/time/2024/nothing",
        "orders-0/time/2024/log/nothing", "orders-0/time/2024/log/00000000000000000000.log",
        "orders-0/records/0", "orders-0/records/1.jsonl", "orders-0/segments/..",
        "orders-0/segments/.", "orders-0/segments/a\0b", "orders-0/state/nothing.json",
        "state/nothing", "time/nothing", "time/2024/orders-0", "time/2023/nothing-0",
        "time/2023/__cluster_metadata-0", ".kafkafs/nothing", "orders-0/.", "..",
    ],
)  # fmt: skip
def test_other_paths_are_not_there(trees: dict[str, Tree], path: str) -> None:
    with pytest.raises(NotFound):
        trees["current"].resolve(path)


@pytest.mark.parametrize(
    "path", ["README.txt/x", "orders-0/offset/0/x", "orders-0/offset/earliest/x"]
)
def test_nothing_is_below_a_file(trees: dict[str, Tree], path: str) -> None:
    with pytest.raises(NotADirectory):
        trees["current"].resolve(path)


def test_leading_zeros_name_the_same_record(trees: dict[str, Tree]) -> None:
    tree = trees["current"]
    plain = content_of(tree.resolve("orders-0/offset/35"))
    for name in ("035", "00000000000000000035"):
        assert content_of(tree.follow(tree.resolve(f"orders-0/offset/{name}"))) == plain
    assert content_of(tree.resolve("orders-0/records/0.jsonl"))


def test_the_readme_names_the_source_and_the_status_the_version(trees: dict[str, Tree]) -> None:
    tree = trees["current"]
    assert str(log_dir("current")).encode() in content_of(tree.resolve("README.txt"))
    assert content_of(tree.resolve(".kafkafs/version")).startswith(b"kafkafs ")
    assert not content_of(tree.resolve(".kafkafs/problems"))
