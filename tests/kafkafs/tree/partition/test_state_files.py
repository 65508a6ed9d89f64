"""`state/`: what is known beside the records, as JSON that always parses."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkafs.tree.errors import Cancelled
from kafkafs.tree.node import File
from kafkafs.tree.partition import partition_state
from kafkafs.tree.tree import Tree
from tests import builders
from tests.builders import Aborted, Producer, Rec, SnapshotEntry
from tests.fixtures_data import log_dir
from tests.kafkafs.built_logs import (
    BuiltLog,
    batches_of,
    content_of,
    look_again,
    names_in,
    text_batch,
    tree_over,
)

P7 = Producer(id=7, epoch=1, sequence=0)


@pytest.fixture
def log(tmp_path: Path) -> BuiltLog:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(3), 0, aborted=[Aborted(7, 3, 5, 9)])
    log.segment(batches_of(3, first=30), 30, snapshot=[SnapshotEntry(7, 1, 4, 29, 2)])
    return log


@pytest.fixture
def tree(log: BuiltLog) -> Iterator[Tree]:
    with tree_over(log.log_dir) as tree:
        yield tree


def state(tree: Tree, name: str) -> Any:
    return json.loads(content_of(tree.resolve(f"orders-0/state/{name}.json")))


def test_offsets(tree: Tree) -> None:
    assert state(tree, "offsets") == {
        "topic": "orders", "partition": 0, "topicId": None, "logStartOffset": 0,
        "firstRecordOffset": 0, "lastRecordOffset": 59, "lastStableOffset": 60,
        "highWatermark": 0, "logEndOffset": 60, "maxTimestamp": 1_700_000_059_000,
        "maxTimestampOffset": 59, "segments": 2, "size": 6 * len(text_batch(0, 10)), "live": False,
    }  # fmt: skip


def test_the_partitions_folder_has_the_offsets_as_xattrs(tree: Tree) -> None:
    facts = tree.resolve("orders-0").xattrs()
    assert facts["user.kafka.log_end_offset"] == b"60"
    assert facts["user.kafka.live"] == b"false"
    assert "user.kafka.topic_id" not in facts


def test_epochs_end_where_the_next_begins(tree: Tree, log: BuiltLog) -> None:
    (log.folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n5 35\n")
    look_again(tree)
    assert state(tree, "epochs") == [
        {"epoch": 0, "startOffset": 0, "endOffset": 35},
        {"epoch": 5, "startOffset": 35, "endOffset": 60},
    ]


def test_producers_of_each_snapshot(tree: Tree, log: BuiltLog) -> None:
    (log.folder / f"{60:020}.snapshot").write_bytes(b"rubbish")
    look_again(tree)
    good, bad = state(tree, "producers")
    assert good["offset"] == 30
    assert good["producers"] == [
        {
            "producerId": 7, "producerEpoch": 1, "coordinatorEpoch": -1,
            "lastTimestamp": 1_700_000_000_000, "currentTxnFirstOffset": None,
            "lastSequence": 4, "lastOffset": 29, "offsetDelta": 2,
        }
    ]  # fmt: skip
    assert bad["offset"] == 60
    assert bad["error"]["kind"] == "CorruptSnapshotError"


def test_transactions_that_are_open_and_that_were_aborted(tree: Tree, log: BuiltLog) -> None:
    log.append(builders.batch([Rec(b"v")], 60, producer=P7, transactional=True))
    look_again(tree)
    assert state(tree, "transactions") == {
        "lastStableOffset": 60,
        "open": [{"producerId": 7, "producerEpoch": 1, "firstOffset": 60}],
        "aborted": [{"producerId": 7, "firstOffset": 3, "lastOffset": 5, "lastStableOffset": 9}],
    }


def test_producers_and_aborts_that_are_not_listed_are_counted(
    tree: Tree, log: BuiltLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted = [Aborted(7, first, first + 1, first + 2) for first in range(3)]
    producers = [SnapshotEntry(number) for number in range(4)]
    log.segment(batches_of(3, first=60), 60, aborted=aborted, snapshot=producers)
    look_again(tree)
    monkeypatch.setattr(partition_state, "MOST_PRODUCERS", 3)
    monkeypatch.setattr(partition_state, "MOST_TRANSACTIONS", 2)
    older, newer = state(tree, "producers")
    assert (len(older["producers"]), "notListed" in older) == (1, False)
    assert (len(newer["producers"]), newer["notListed"]) == (2, 2)
    found = state(tree, "transactions")
    assert (len(found["aborted"]), found["abortedNotListed"]) == (2, 2)


def test_indexes_of_each_segment(tree: Tree, log: BuiltLog) -> None:
    (log.folder / f"{30:020}.index").write_bytes(b"123")
    look_again(tree)
    first, second = state(tree, "indexes")
    assert first["segment"] == 0
    assert set(first["indexes"]) == {
        f"{0:020}{suffix}" for suffix in (".index", ".timeindex", ".txnindex")
    }
    times = first["indexes"][f"{0:020}.timeindex"]
    assert times["entries"] == 1
    assert times["lastEntry"] == {"timestamp": 1_700_000_029_000, "offset": 29}
    assert "error" in second["indexes"][f"{30:020}.index"]


def test_leftovers_are_what_is_no_part_of_the_log(tree: Tree, log: BuiltLog) -> None:
    (log.folder / f"{0:020}.log.deleted").write_bytes(b"old")
    (log.folder / "foo.log").write_bytes(b"x")
    (log.folder / "link.log").symlink_to("/etc/passwd")
    os.mkfifo(log.folder / f"{99:020}.log")
    look_again(tree)
    found = {entry["file"]: entry for entry in state(tree, "leftovers")}
    assert set(found) == {f"{0:020}.log.deleted", "foo.log", "link.log", f"{99:020}.log"}
    assert found["foo.log"]["bytes"] == 1
    assert all(entry["reason"] for entry in found.values())
    assert "link.log" not in names_in(tree.resolve("orders-0/segments"))
    assert f"{99:020}.log" not in names_in(tree.resolve("orders-0/segments"))


def test_names_that_are_no_text_are_told_as_text(tree: Tree, log: BuiltLog) -> None:
    with open(os.fsencode(log.folder) + b"/\xff\x1b[31m.log", "wb"):
        pass
    look_again(tree)
    data = content_of(tree.resolve("orders-0/state/leftovers.json"))
    assert all(byte == 10 or 32 <= byte < 127 for byte in data)
    assert json.loads(data)[0]["file"] == "\\xff\x1b[31m.log"
    assert "\udcff\x1b[31m.log" in names_in(tree.resolve("orders-0/segments"))
    assert content_of(tree.resolve("orders-0/segments/\udcff\x1b[31m.log")) == b""


def test_a_file_has_its_exact_size_from_when_it_was_read_until_the_log_changes(
    tree: Tree, log: BuiltLog
) -> None:
    node = tree.resolve("orders-0/state/offsets.json")
    assert not node.attrs().exact
    size = len(content_of(node))
    assert (node.attrs().size, node.attrs().exact) == (size, True)
    log.append(*batches_of(100, first=60))
    look_again(tree)
    assert not tree.resolve("orders-0/state/offsets.json").attrs().exact
    assert state(tree, "offsets")["logEndOffset"] == 1060


def test_making_one_can_be_given_up(tree: Tree) -> None:
    node = tree.resolve("orders-0/state/indexes.json")
    assert isinstance(node, File)
    with pytest.raises(Cancelled):
        node.open(lambda: True)


# -- of the whole source ---------------------------------------------------------------------------


def test_the_roots_state_tells_ids_checkpoints_partitions_and_leftovers(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment(batches_of(1), 0)
    BuiltLog(log.log_dir, "doomed-1.0123456789abcdef0123456789abcdef-delete")
    (log.log_dir / "meta.properties").write_text("version=1\nnode.id=3\ncluster.id=abc\n")
    (log.log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    (log.log_dir / "cleaner-offset-checkpoint").write_text("rubbish")
    (log.log_dir / "stranger").write_text("?")
    with tree_over(log.log_dir) as tree:
        found = {
            name: json.loads(content_of(tree.resolve(f"state/{name}")))
            for name in names_in(tree.resolve("state"))
        }
    (meta,) = found["meta.properties.json"]
    assert meta["logDir"] == str(log.log_dir)
    assert meta["properties"] == {"version": "1", "node.id": "3", "cluster.id": "abc"}
    assert (meta["live"], meta["cleanShutdown"]) == (False, False)
    (checkpoints,) = found["checkpoints.json"]
    assert checkpoints["recovery-point-offset-checkpoint"] == [
        {"topic": "orders", "partition": 0, "offset": 10}
    ]
    assert "error" in checkpoints["cleaner-offset-checkpoint"]
    assert "replication-offset-checkpoint" not in checkpoints
    assert [(each["name"][:8], each["state"]) for each in found["partitions.json"]] == [
        ("doomed-1", "delete"), ("orders-0", "log"),
    ]  # fmt: skip
    (leftover,) = found["leftovers.json"]
    assert leftover["name"] == "stranger"


def test_checkpoints_of_a_real_log_dir_parse() -> None:
    with tree_over(log_dir("current")) as tree:
        (checkpoints,) = json.loads(content_of(tree.resolve("state/checkpoints.json")))
        trimmed = {"topic": "trimmed", "partition": 0, "offset": 753}
        assert trimmed in checkpoints["log-start-offset-checkpoint"]
