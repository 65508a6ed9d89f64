"""Faults 61 to 82: indexes, snapshots, checkpoints and the other files beside the records.

All of them are hints. Whatever they say, the records are the same, every look-up finds them, and where one is
wrong the problems say so.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.builders import (
    Aborted,
    Producer,
    SnapshotEntry,
    batch,
    control_batch,
    end_marker,
    offset_index,
    producer_snapshot,
    time_index,
    transaction_index,
)
from tests.damage.cases import (
    BEFORE,
    GOOD_VALUES,
    START,
    VICTIM,
    behind,
    good,
    log_dir,
    records,
)
from tests.damage.reader import Look
from tests.damage.survey import Survey

STEM = f"{0:020}"
COUNT = 40
SIZE = len(good("a00-", 0))
"""Bytes of each of the batches; they hold three records."""
VALUES = [f"a{number:02}-{record}" for number in range(COUNT) for record in range(3)]


def long_log(folder: Path) -> Path:
    """A log of two segments of 20 batches; every batch but the first has an index entry."""
    for first in (0, COUNT // 2):
        log_dir(
            folder,
            [good(f"a{number:02}-", 3 * number) for number in range(first, first + COUNT // 2)],
            3 * first,
        )
    return folder


def path_of(folder: Path, suffix: str, base: int = 0) -> Path:
    return folder / "t-0" / f"{base:020}.{suffix}"


def assert_all_is_there(found: Survey, proven_end: int | None = None) -> None:
    """All records are there; offsets up to an end that a side file proves beyond them are told as lost."""
    assert found.values() == VALUES
    lost = [(each["kind"], each["firstOffset"], each["lastOffset"]) for each in found.errors()]
    assert lost == ([] if proven_end is None else [("missing", 3 * COUNT, proven_end - 1)])
    state = found.json("t-0/state/offsets.json")
    assert (state["logStartOffset"], state["logEndOffset"]) == (0, 3 * COUNT)
    assert (state["maxTimestamp"], state["maxTimestampOffset"]) == (
        START + 1000 * (3 * COUNT - 1),
        3 * COUNT - 1,
    )


RIGHT = [(3 * number + 2, SIZE * number) for number in range(1, COUNT // 2)]
OFFSET_INDEXES = {
    "061-9-bytes": bytes(9),
    "061-a-byte-too-many": offset_index(RIGHT) + b"\x00",
    "061-a-byte-too-few": offset_index(RIGHT)[:-1],
    "062-10-MiB-of-zeros": bytes(10 << 20),
    "062-zeros-behind": offset_index(RIGHT[:3]) + bytes(10 << 20),
    "063-going-back": offset_index(RIGHT[::-1]),
    "063-positions-going-back": offset_index(
        [(offset, SIZE * (20 - number)) for number, (offset, _) in enumerate(RIGHT)]
    ),
    "064-past-the-end": offset_index([(1, 10**6)]),
    "064-at-the-end": offset_index([(1, SIZE * COUNT // 2)]),
    "064-a-little-off": offset_index([(offset, position + 1) for offset, position in RIGHT]),
    "064-too-far": offset_index([(offset - 30, position) for offset, position in RIGHT[10:]]),
    "064-too-near": offset_index([(offset + 30, position) for offset, position in RIGHT[:8]]),
    "064-all-at-0": offset_index([(offset, 0) for offset, _ in RIGHT]),
    "065-negative-offset": offset_index([(-5, SIZE), *RIGHT]),
    "065-negative-position": offset_index([(2, -1), *RIGHT]),
    "065-both-extremes": struct.pack(">4i", -(2**31), -(2**31), 2**31 - 1, 2**31 - 1),
    "105-empty": b"",
    "noise": bytes(range(256)) * 31,
}


@pytest.mark.parametrize("base", [0, 3 * COUNT // 2], ids=["closed", "active"])
@pytest.mark.parametrize("case", OFFSET_INDEXES)
def test_faults_061_to_065_an_offset_index_is_a_hint(
    tmp_path: Path, look: Look, case: str, base: int
) -> None:
    long_log(tmp_path)
    (tmp_path / ".kafka_cleanshutdown").write_bytes(b"")
    path_of(tmp_path, "index", base).write_bytes(OFFSET_INDEXES[case])
    found = look(tmp_path)
    assert_all_is_there(found)
    if case.startswith("061") and not base:  # a small active segment is read without its index
        assert found.noted("offset_index")


def test_fault_064_what_an_index_leads_past_is_still_found(tmp_path: Path, look: Look) -> None:
    # The entry is "proven": a good batch of a lower offset stands there, but it is the last one.
    long_log(tmp_path)
    last = SIZE * (COUNT // 2 - 1)
    path_of(tmp_path, "index").write_bytes(offset_index([(0, last)]))
    found = look(tmp_path)
    assert_all_is_there(found)


def test_fault_064_an_index_cannot_lead_into_a_value(tmp_path: Path, look: Look) -> None:
    # A record whose value is a batch of its own, of a lower offset than any that is looked up.
    forged = batch(records(1, "forged"), 1)
    holder = batch([records(3, "x")[0]._replace(value=b"|" + forged), *records(4, "y", "z")], 3)
    log_dir(tmp_path, [good("a", 0), holder, good("b", 6)])
    inside = path_of(tmp_path, "log").read_bytes().index(forged)
    path_of(tmp_path, "index").write_bytes(offset_index([(2, inside)]))
    found = look(tmp_path)
    assert "forged" not in found.values()
    assert found.offsets() == list(range(9))


TIMES = [(START + 1000 * (3 * number + 2), 3 * number + 2) for number in range(COUNT // 2)]
TIME_INDEXES = {
    "066-zeros": bytes(12 * 50),
    "066-13-bytes": bytes(13),
    "066-decreasing": time_index(TIMES[::-1]),
    "066-cut": time_index(TIMES)[:-5],
    "066-too-new": time_index([(when + 10**6, offset) for when, offset in TIMES]),
    "066-too-old": time_index([(when - 10**6, offset) for when, offset in TIMES]),
    "066-far-future": time_index([(2**63 - 1, 5)]),
    "066-negative": time_index([(-5, -5), (-1, -1)]),
    "066-offsets-shifted": time_index([(when, offset + 9) for when, offset in TIMES]),
    "066-offset-extreme": time_index([(START, 2**31 - 1)]),
    "066-one-entry-last": time_index([(TIMES[0][0], TIMES[-1][1])]),
    "066-empty": b"",
    "066-noise": bytes(range(256)) * 31,
}


@pytest.mark.parametrize("base", [0, 3 * COUNT // 2], ids=["closed", "active"])
@pytest.mark.parametrize("case", TIME_INDEXES)
def test_fault_066_a_time_index_is_a_hint(tmp_path: Path, look: Look, case: str, base: int) -> None:
    long_log(tmp_path)
    path_of(tmp_path, "timeindex", base).write_bytes(TIME_INDEXES[case])
    assert_all_is_there(look(tmp_path))


# -- transactions

WRITER = Producer(id=7, epoch=0, sequence=0)
ABORTER = Producer(id=8, epoch=0, sequence=0)


def transactions(folder: Path) -> Path:
    """Committed records at 0 to 2, aborted ones at 4 to 6, plain ones at 8 to 10, markers at 3 and 7."""
    batches = [
        batch(records(0, "a0", "a1", "a2"), 0, producer=WRITER, transactional=True),
        end_marker(3, WRITER, commit=True),
        batch(records(4, "b0", "b1", "b2"), 4, producer=ABORTER, transactional=True),
        end_marker(7, ABORTER, commit=False),
        good("c", 8),
    ]
    return log_dir(folder, batches)


TRANSACTION_INDEXES = {
    "067-absent": None,
    "067-empty": b"",
    "067-10-bytes": bytes(10),
    "067-34-zeros": bytes(34),
    "067-version-1": transaction_index([Aborted(8, 4, 7, 8, version=1)]),
    "067-negative-last-offset": transaction_index([Aborted(8, 4, -7, 8)]),
    "067-accuses-the-committed": transaction_index([Aborted(7, 0, 3, 4), Aborted(8, 4, 7, 8)]),
    "067-accuses-everything": transaction_index([Aborted(-1, 0, 2**62, 2**62)]),
    "067-cut": transaction_index([Aborted(8, 4, 7, 8)])[:-1],
}


@pytest.mark.parametrize("case", TRANSACTION_INDEXES)
def test_fault_067_what_is_aborted_is_decided_by_markers(
    tmp_path: Path, look: Look, case: str
) -> None:
    transactions(tmp_path)
    content = TRANSACTION_INDEXES[case]
    if content is not None:
        path_of(tmp_path, "txnindex").write_bytes(content)
    found = look(tmp_path)
    assert found.values(view="committed") == ["a0", "a1", "a2", "c0", "c1", "c2"]
    states = [fact.get("transaction", {}).get("state") for fact in found.records()]
    assert states == [*["committed"] * 3, None, *["aborted"] * 3, *[None] * 4]
    if case == "067-version-1":
        assert "error" in found.files["t-0/state/transactions.json"].decode()


SNAPSHOTS = {
    "068-empty": b"",
    "068-cut": producer_snapshot([SnapshotEntry(7)])[:-3],
    "068-bad-crc": producer_snapshot([SnapshotEntry(7)])[:-1] + b"\x00",
    "068-count-2^31-1": struct.pack(">hIi", 1, 0, 2**31 - 1),
    "068-version-9": producer_snapshot([SnapshotEntry(7)], version=9),
    "068-open-where-none-is": producer_snapshot(
        [SnapshotEntry(7, current_transaction_first_offset=1)]
    ),
    "068-open-of-another": producer_snapshot(
        [SnapshotEntry(9, current_transaction_first_offset=4)]
    ),
    "068-open-in-the-future": producer_snapshot(
        [SnapshotEntry(9, current_transaction_first_offset=10**9)]
    ),
    "068-open-below-0": producer_snapshot([SnapshotEntry(9, current_transaction_first_offset=-9)]),
    "068-twice": producer_snapshot([SnapshotEntry(7), SnapshotEntry(7)]),
    "068-noise": bytes(range(256)) * 31,
}


@pytest.mark.parametrize("at", [4, 8, 11])
@pytest.mark.parametrize("case", SNAPSHOTS)
def test_fault_068_a_producer_snapshot_is_a_hint(
    tmp_path: Path, look: Look, case: str, at: int
) -> None:
    transactions(tmp_path)
    path_of(tmp_path, "snapshot", at).write_bytes(SNAPSHOTS[case])
    found = look(tmp_path)
    assert found.values(view="committed") == ["a0", "a1", "a2", "c0", "c1", "c2"]
    assert found.json("t-0/state/offsets.json")["lastStableOffset"] == 11
    if case in ("068-empty", "068-cut", "068-bad-crc", "068-count-2^31-1", "068-version-9"):
        assert "error" in found.files["t-0/state/producers.json"].decode()


def test_fault_069_indexes_without_a_log_are_leftovers(tmp_path: Path, look: Look) -> None:
    long_log(tmp_path)
    for suffix in ("index", "timeindex", "txnindex"):
        path_of(tmp_path, suffix, 999).write_bytes(b"\x01" * 24)
    path_of(tmp_path, "snapshot", 999).write_bytes(b"\x01" * 24)
    found = look(tmp_path)
    assert_all_is_there(found, 999 + 0x01010101 + 1)
    named = {entry["file"] for entry in found.json("t-0/state/leftovers.json")}
    assert {f"{999:020}.index", f"{999:020}.timeindex", f"{999:020}.txnindex"} <= named


def test_fault_069_a_folder_with_indexes_only_is_an_empty_log(tmp_path: Path, look: Look) -> None:
    long_log(tmp_path)
    for base in (0, 3 * COUNT // 2):
        path_of(tmp_path, "log", base).unlink()
    found = look(tmp_path)
    assert found.names["t-0/records"] == []
    assert found.names["t-0/offset"] == ["README.txt"]


# -- zeros


@pytest.mark.parametrize("size", [1, 16, 17, 100, 4096, 3 << 20])
def test_fault_070_zeros_at_the_end_are_room_not_damage(
    tmp_path: Path, look: Look, size: int
) -> None:
    found = look(behind(tmp_path, bytes(size)))
    assert found.values() == GOOD_VALUES[:6]
    assert [error["kind"] for error in found.errors()] in ([], ["torn_tail"][: size < 17])
    assert found.json("t-0/state/offsets.json")["logEndOffset"] == 6


@pytest.mark.parametrize("size", [100, 4096, 3 << 20])
def test_fault_070_zeros_with_something_behind_them_are_damage(
    tmp_path: Path, look: Look, size: int
) -> None:
    found = look(behind(tmp_path, bytes(size) + good("c", 9)))
    assert found.values() == GOOD_VALUES[:9]
    (error,) = found.errors()
    assert (error["kind"], error["length"]) == ("zeros", size)
    assert (error["firstOffset"], error["lastOffset"]) == (6, 8)


# -- checkpoints

CHECKPOINTS = (
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
IGNORED = {
    "071-empty": b"",
    "071-version-only": b"0\n",
    "071-count-only": b"0\n0\n",
    "072-version": b"7\n1\nt 0 3\n",
    "072-words": b"0\n1\nt 0\n",
    "072-not-a-number": b"0\n1\nt 0 x\n",
    "072-too-few": b"0\n2\nt 0 3\n",
    "072-too-many": b"0\n1\nt 0 3\nt 1 3\n",
    "072-not-utf-8": b"0\n1\n\xff\xfe 0 3\n",
    "072-arabic-digits": "0\n1\nt 0 ٣\n".encode(),
    "072-2^63": b"0\n1\nt 0 9223372036854775808\n",
    "072-no-lines": b"\x00" * 4096,
    "073": b"0\n-1\n",
    "074": b"0\n2147483647\n",
    "074-with-an-entry": b"0\n2147483647\nt 0 3\n",
}


@pytest.mark.parametrize("case", IGNORED)
def test_faults_071_to_074_a_checkpoint_that_cannot_be_read_is_as_good_as_none(
    tmp_path: Path, look: Look, case: str
) -> None:
    long_log(tmp_path)
    for name in CHECKPOINTS:
        (tmp_path / name).write_bytes(IGNORED[case])
    found = look(tmp_path)
    assert_all_is_there(found)
    is_fine = case.startswith("071")
    assert bool(found.noted("checkpoint")) == (not is_fine)
    shown = found.json("state/checkpoints.json")[0]
    assert [isinstance(shown[name], list) for name in CHECKPOINTS] == [is_fine] * 4
    assert found.peak < 32 << 20


@pytest.mark.parametrize("line", [b"t 0 3\n", b"\n", "😀 0 3\n".encode()])
def test_fault_074_a_huge_checkpoint_is_refused_in_bounded_memory(
    tmp_path: Path, look: Look, line: bytes
) -> None:
    long_log(tmp_path)
    checkpoint = tmp_path / CHECKPOINTS[0]
    count = (30 << 20) // len(line)
    for stated in (5, count):
        checkpoint.write_bytes(b"0\n%d\n" % stated + line * count)
        found = look(tmp_path, only=["t-0/records/00000000000000000000.jsonl"])
        assert found.files["t-0/records/00000000000000000000.jsonl"].count(b"\n") == 60
        assert found.noted("checkpoint")
    with checkpoint.open("r+b") as file:
        file.truncate(1 << 40)
    found = look(tmp_path, only=["t-0/records/00000000000000000000.jsonl"])
    assert found.files["t-0/records/00000000000000000000.jsonl"].count(b"\n") == 60
    assert found.noted("checkpoint")


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        ([b"t 0 -7"], 0),
        ([b"t 0 5", b"t 0 9"], 9),
        ([b"t 0 9223372036854775807"], 120),
        ([b"t 0 121"], 120),
        ([b"t 0 120"], 120),
    ],
)
def test_fault_075_a_log_start_is_kept_within_the_log(
    tmp_path: Path, look: Look, lines: list[bytes], start: int
) -> None:
    long_log(tmp_path)
    text = b"0\n%d\n" % len(lines) + b"\n".join(lines) + b"\n"
    (tmp_path / CHECKPOINTS[0]).write_bytes(text)
    found = look(tmp_path)
    assert found.values() == VALUES
    assert found.json("t-0/state/offsets.json")["logStartOffset"] == start
    below = [fact["offset"] for fact in found.records() if "belowLogStart" in fact]
    assert below == list(range(start))


EPOCHS = {
    "076-garbage": b"\x00\xff garbage",
    "076-empty": b"",
    "076-backwards": b"0\n2\n5 0\n3 60\n",
    "076-offsets-backwards": b"0\n2\n1 60\n2 10\n",
    "076-negative": b"0\n1\n-4 -9\n",
    "076-past-the-end": b"0\n2\n0 0\n1 5000\n",
    "076-count-2^31-1": b"0\n2147483647\n",
}


@pytest.mark.parametrize("case", EPOCHS)
def test_fault_076_leader_epochs_that_are_wrong_cost_nothing(
    tmp_path: Path, look: Look, case: str
) -> None:
    long_log(tmp_path)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_bytes(EPOCHS[case])
    found = look(tmp_path)
    assert_all_is_there(found, 5000 if case == "076-past-the-end" else None)
    shown = found.json("t-0/state/epochs.json")
    assert all(entry["endOffset"] <= 3 * COUNT for entry in shown)


METADATA = {
    "077-garbage": b"\x00\xff garbage",
    "077-empty": b"",
    "077-zero-id": b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    "077-version-below-0": b"version: -1\ntopic_id: c7R4PUQMSUiqeY9mVpPj9A",
    "077-short-id": b"version: 0\ntopic_id: c7R4",
}


@pytest.mark.parametrize("case", METADATA)
def test_fault_077_a_topic_id_that_is_none_is_unknown(
    tmp_path: Path, look: Look, case: str
) -> None:
    long_log(tmp_path)
    (tmp_path / "t-0" / "partition.metadata").write_bytes(METADATA[case])
    found = look(tmp_path)
    assert_all_is_there(found)
    assert found.json("t-0/state/offsets.json")["topicId"] is None
    assert found.noted("partition_metadata")


PROPERTIES = {
    "078-of-another-cluster": b"version=1\ncluster.id=another\nnode.id=9\ndirectory.id=x\n",
    "078-unknown-version": b"version=77\ncluster.id=c\n",
    "078-garbage": b"\xff\xfe\x00\x00=\\u12",
    "078-empty": b"",
    "078-bad-escape": b"cluster.id=\\uZZZZ\n",
    "078-endless-line": b"a" * (1 << 20) + b"\\\n" * 1000,
}


@pytest.mark.parametrize("case", PROPERTIES)
def test_fault_078_whatever_meta_properties_say_the_logs_are_served(
    tmp_path: Path, look: Look, case: str
) -> None:
    long_log(tmp_path)
    (tmp_path / "meta.properties").write_bytes(PROPERTIES[case])
    found = look(tmp_path)
    assert_all_is_there(found)
    assert "state/meta.properties.json" in found.files


@pytest.mark.parametrize("content", [b"", b'{"version":0,"brokerEpoch":5}', b"\xff{", b"[" * 10**5])
def test_faults_079_080_a_clean_shutdown_is_not_believed(
    tmp_path: Path, look: Look, content: bytes
) -> None:
    behind(tmp_path, VICTIM[:50])
    (tmp_path / ".kafka_cleanshutdown").write_bytes(content)
    found = look(tmp_path)
    assert found.values() == GOOD_VALUES[:6]
    assert [error["kind"] for error in found.errors()] == ["torn_tail"]
    assert found.json("state/meta.properties.json")[0]["cleanShutdown"] is True


@pytest.mark.parametrize(("stated", "shown"), [(10**9, 120), (-5, 0), (77, 77)])
def test_fault_081_a_high_watermark_is_kept_within_the_log(
    tmp_path: Path, look: Look, stated: int, shown: int
) -> None:
    long_log(tmp_path)
    for name in CHECKPOINTS[1:]:
        (tmp_path / name).write_bytes(b"0\n1\nt 0 %d\n" % stated)
    found = look(tmp_path)
    assert_all_is_there(found, stated if stated > 3 * COUNT else None)
    assert found.json("t-0/state/offsets.json")["highWatermark"] == shown


def test_fault_082_files_of_kraft_are_shown_as_they_are(tmp_path: Path, look: Look) -> None:
    snapshot = b"".join(
        [control_batch(3, b"\x00" * 11, 0), good("m", 1), control_batch(4, b"\x00" * 3, 4)]
    )
    log_dir(tmp_path, BEFORE, name="__cluster_metadata-0")
    folder = tmp_path / "__cluster_metadata-0"
    names = {
        f"{6:020}-{2:010}.checkpoint": snapshot,
        f"{7:020}-{2:010}.checkpoint": b"\xff" * 50,
        f"{8:020}-{2:010}.checkpoint.part": b"half",
        f"{3:020}-{1:010}.checkpoint.deleted": b"gone",
        "quorum-state": b'{"leaderId":1,"leaderEpoch":2147483647',
    }
    for name, content in names.items():
        (folder / name).write_bytes(content)
    found = look(tmp_path)
    assert found.values("__cluster_metadata-0") == GOOD_VALUES[:6]
    for name, content in names.items():
        assert found.files[f"__cluster_metadata-0/segments/{name}"] == content
    left = {entry["file"] for entry in found.json("__cluster_metadata-0/state/leftovers.json")}
    assert {name for name in names if name.endswith((".part", ".deleted"))} <= left
