"""The small files of a log directory in a dump."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import builders
from tests.builders import SnapshotEntry, patched
from tests.kafkafs.dump.dumped import Dumped, dump

ENTRIES = [
    SnapshotEntry(88, 1, 4, 1008, 2, 1700001004000, -1, 1002),
    SnapshotEntry(89, 0, -1, -1, 0, 1700001004001, 3, -1),
]
LINES = [
    (
        "producerId: 88 producerEpoch: 1 coordinatorEpoch: -1"
        " currentTxnFirstOffset: OptionalLong[1002] lastTimestamp: 1700001004000 firstSequence: 2"
        " lastSequence: 4 lastOffset: 1008 offsetDelta: 2 timestamp: 1700001004000"
    ),
    (
        "producerId: 89 producerEpoch: 0 coordinatorEpoch: 3"
        " currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 1700001004001"
    ),
]


def dumped(tmp_path: Path, name: str, data: bytes) -> Dumped:
    path = tmp_path / name
    path.write_bytes(data)
    return dump(path)


def test_the_producers_of_a_snapshot_are_listed(tmp_path: Path) -> None:
    data = builders.producer_snapshot(ENTRIES)
    found = dumped(tmp_path, "00000000000000001009.snapshot", data)
    assert found.lines[1:] == LINES
    assert (found.err, found.status) == ("", 0)


def test_a_wrong_checksum_is_said_and_what_is_there_is_listed(tmp_path: Path) -> None:
    data = patched(builders.producer_snapshot(ENTRIES), 2, b"\0\0\0\0")
    found = dumped(tmp_path, "00000000000000001009.snapshot", data)
    said = "Snapshot is corrupt (CRC is no longer valid). Stored crc: 0. Computed crc: "
    assert found.err.startswith(said)
    assert found.lines[1:] == LINES
    assert found.status == 1


@pytest.mark.parametrize(
    ("data", "said", "listed"),
    [
        (b"", "Snapshot failed schema validation: null", 0),
        (
            builders.producer_snapshot(ENTRIES, version=5),
            "Snapshot contained an unknown file version 5",
            0,
        ),
        (builders.producer_snapshot(ENTRIES)[:70], "2 entries are stated, 1 are there", 1),
    ],
    ids=["empty", "version", "cut"],
)
def test_a_snapshot_that_does_not_parse_gives_what_it_holds(
    tmp_path: Path, data: bytes, said: str, listed: int
) -> None:
    found = dumped(tmp_path, "00000000000000001009.snapshot", data)
    assert said in found.err
    assert found.lines[1:] == LINES[:listed]
    assert found.status == 1


@pytest.mark.parametrize(
    ("name", "data", "lines"),
    [
        (
            "leader-epoch-checkpoint",
            b"0\n2\n0 0\n3 120\n",
            ["epoch: 0 startOffset: 0", "epoch: 3 startOffset: 120"],
        ),
        (
            "replication-offset-checkpoint",
            b"0\n1\norders 1 985\n",
            ["topic: orders partition: 1 offset: 985"],
        ),
        (
            "recovery-point-offset-checkpoint",
            "0\n1\nb\x1b\u202e 1 985\n".encode(),
            ["topic: 'b\\x1b\\u202e' partition: 1 offset: 985"],
        ),
        (
            "partition.metadata",
            b"version: 0\ntopic_id: sgf5MsZgRTuEMv68ZXKJbQ",
            ["version: 0 topicId: sgf5MsZgRTuEMv68ZXKJbQ"],
        ),
        (
            "meta.properties",
            b"version=1\nnode.id=3\ncluster.id=abc\n",
            ["version: 1 clusterId: abc nodeId: 3"],
        ),
        (
            "quorum-state",
            b'{"leaderId":1,"leaderEpoch":5,"votedId":-1,"data_version":1}',
            ["version: 1 leaderId: 1 leaderEpoch: 5 votedId: -1 votedDirectoryId: None"],
        ),
        (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":10}', ["version: 0 brokerEpoch: 10"]),
        (".kafka_cleanshutdown", b"", ["(empty)"]),
    ],
)
def test_files_that_kafkas_tool_cannot_read_are_read(
    tmp_path: Path, name: str, data: bytes, lines: list[str]
) -> None:
    found = dumped(tmp_path, name, data)
    assert found.lines[1:] == lines
    assert (found.err, found.status) == ("", 0)


def test_a_checkpoint_that_does_not_parse_is_shown_line_by_line(tmp_path: Path) -> None:
    found = dumped(tmp_path, "leader-epoch-checkpoint", b"0\n2\n0 0\n3 \x1b[2J\n")
    assert "malformed (line 4)" in found.err
    assert found.lines[-2:] == ["line 3: 0 0", "line 4: 3 \\x1b[2J"]
    assert found.status == 1
