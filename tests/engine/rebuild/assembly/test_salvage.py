"""Every good batch of a damaged log is in the new one: byte for byte, at its offset, and nothing else is."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from random import Random

import numpy as np
import pytest

from engine.columns.batch_table import BATCH_ROW
from engine.disk.disk import DISK
from engine.log.segment.chains import Ranges, heaviest_chain
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.rebuilt import Rebuilt
from engine.record.file_records import FileRecords
from engine.record.record_batch import RecordBatch, batch_at
from tests import builders
from tests.builders import Producer, Rec
from tests.engine.rebuild.made_logs import (
    HITS,
    MadeLog,
    facts_of,
    holes,
    make_log,
    offsets_of,
    state_of,
)

RUNS = int(os.environ.get("KAFKAFS_REBUILD_RUNS", "6"))


def log_bytes(log_dir: Path, name: str = "orders-0") -> bytes:
    return b"".join(path.read_bytes() for path in sorted((log_dir / name).glob("*.log")))


def good_batches(made: MadeLog, lost: set[int]) -> bytes:
    return b"".join(
        batch for number, (_, _, batch) in enumerate(made.batches) if number not in lost
    )


def is_certain(made: MadeLog, lost: set[int], original: MadeLog) -> bool:
    """Whether what was hit is told by a checksum or a frame: not offset, leader epoch or an equal copy."""
    return all(
        made.path(base).read_bytes()[position : position + len(batch)][8:12] != batch[8:12]
        or made.path(base).read_bytes()[position : position + len(batch)][16:] != batch[16:]
        for number, (base, position, batch) in enumerate(original.batches)
        if number in lost
    )


@pytest.mark.parametrize("kind", HITS)
@pytest.mark.parametrize("seed", range(RUNS))
def test_fault_139_all_batches_that_were_not_hit_are_there_byte_for_byte(tmp_path, kind, seed):
    random = Random(f"{kind} {seed}")
    made = make_log(tmp_path / "source", random)
    lost, _ = HITS[kind](made, random)
    before = state_of(tmp_path / "source")
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert state_of(tmp_path / "source") == before
    kept = log_bytes(tmp_path / "target")
    if len(lost) and max(lost) == len(made.batches) - 1:
        kept = without_end(kept)
    expected = good_batches(made, lost)
    if kind in ("flipped", "noise", "zeroed") and not is_certain(made, lost, made):
        # An offset or an epoch may be another one; no checksum tells. All others are there.
        for number, (_, _, batch) in enumerate(made.batches):
            assert number in lost or batch in kept
        return
    assert kept == expected, lost
    check_report(result, made, lost)


def without_end(kept: bytes) -> bytes:
    """Without the last batch if it has no records, and only tells where the log ended."""
    at = 0
    batches = []
    while (batch := batch_at(kept, at)) is not None:
        batches.append(batch)
        at += batch.size
    is_end = batches and batches[-1].record_count == 0
    return kept[: len(kept) - batches[-1].size] if is_end else kept


def check_report(result: Rebuilt, made: MadeLog, lost: set[int]) -> None:
    """What is missing is said, to the offset; the log's end stays, unless the end itself is gone."""
    report = result.partitions[0]
    there = {
        offset
        for number, (_, _, batch) in enumerate(made.batches)
        if number not in lost
        for offset in offsets_of(batch)
    }
    start, end = report["logStartOffset"], report["logEndOffset"]
    missing = {
        offset
        for gap in report["losses"]
        for offset in range(gap["firstOffset"], gap["nextOffset"])
    }
    assert start == 0
    inside = set(range(start, end))
    assert missing & inside == inside - there
    assert not missing & there
    # Only the header of a damaged last batch may state more, and nothing proves it.
    assert all(not gap["certain"] for gap in report["losses"] if gap["nextOffset"] > end)
    assert end >= max(there, default=-1) + 1
    if lost and max(lost) < len(made.batches) - 1:
        assert end == made.next_offset
        assert result.lost_something


@pytest.mark.parametrize("seed", range(6))
def test_records_headers_epochs_and_transactions_are_the_same(tmp_path, seed):
    random = Random(seed)
    made = make_log(tmp_path / "source", random, batches=60)
    rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert facts_of(tmp_path / "target") == facts_of(tmp_path / "source")
    assert len(facts_of(tmp_path / "target")) == made.next_offset


def made_again(path: Path) -> list[RecordBatch]:
    """The batches of a file."""
    with DISK.open(path, writable=False) as file:
        return list(FileRecords(file, 0, file.size(), True).batches())


def simple_log(tmp_path: Path, *batches: bytes, base: int = 0) -> MadeLog:
    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    position = 0
    for batch in batches:
        made.batches.append((base, position, batch))
        position += len(batch)
    made.path(base).write_bytes(b"".join(batches))
    return made


def text(offset: int, count: int = 5, *, epoch: int = 0) -> bytes:
    records = [Rec(f"value {offset + at}".encode()) for at in range(count)]
    return builders.batch(records, offset, leader_epoch=epoch)


def moved(batch: bytes, offset: int) -> bytes:
    """The batch with another base offset, which no checksum covers."""
    return builders.patched(batch, 0, offset.to_bytes(8, "big"))


@pytest.mark.parametrize("wrong", [0, 3, 12, 40, 1000, 5_000_000_000])
def test_a_batch_with_another_ones_offset_gets_that_which_its_neighbours_leave(tmp_path, wrong):
    batches = [text(offset) for offset in range(0, 50, 5)]
    hit = [*batches[:4], moved(batches[4], wrong), *batches[5:]]
    simple_log(tmp_path, *hit)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert log_bytes(tmp_path / "target") == b"".join(batches)
    [dropped] = result.partitions[0]["dropped"]
    assert (dropped["kind"], dropped["position"]) == ("misplaced", len(b"".join(batches[:4])))
    assert dropped["reason"] == (
        f"its header states offset {wrong}, but its neighbours leave only 20 to 24 for its records: the"
        " result has it at these offsets"
    )
    assert any(dropped["reason"] in note for note in result.partitions[0]["notes"])
    assert result.partitions[0]["losses"] == []
    assert not result.lost_something


@pytest.mark.parametrize("bit", range(6))
@pytest.mark.parametrize("which", range(5))
def test_a_low_bit_of_a_base_offset_puts_no_batch_over_its_neighbours(tmp_path, which, bit):
    """The segment's name, and the batch behind it, prove the first one's offset; nothing proves the last one's."""
    batches = [
        text(offset, count) for offset, count in ((64, 2), (66, 5), (71, 2), (73, 4), (77, 9))
    ]
    offset = int.from_bytes(batches[which][:8], "big")
    hit = [*batches[:which], moved(batches[which], offset ^ 1 << bit), *batches[which + 1 :]]
    simple_log(tmp_path, *hit, base=64)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    if which < 4:
        assert log_bytes(tmp_path / "target") == b"".join(batches)
        assert not result.lost_something
    else:
        assert log_bytes(tmp_path / "target").startswith(b"".join(batches[:4]))
        [report] = result.partitions
        assert report["losses"] or [each["kind"] for each in report["dropped"]] == ["misplaced"]
        assert result.lost_something


def test_a_copy_in_another_place_is_no_loss(tmp_path):
    batches = [text(offset) for offset in range(0, 50, 5)]
    simple_log(tmp_path, *batches[:7], batches[2], *batches[7:])
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert log_bytes(tmp_path / "target") == b"".join(batches)
    assert [each["kind"] for each in result.partitions[0]["dropped"]] == ["duplicate"]
    assert not result.lost_something


def test_a_copy_that_fits_between_its_neighbours_does_not_get_their_offsets(tmp_path):
    """A block of the same size was written over batch 1; its records are at 25 to 29."""
    batches = [text(offset) for offset in range(0, 50, 5)]
    simple_log(tmp_path, batches[0], batches[5], *batches[2:])
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert log_bytes(tmp_path / "target") == b"".join([batches[0], *batches[2:]])
    assert [each["kind"] for each in result.partitions[0]["dropped"]] == ["duplicate"]
    assert result.lost_something


def test_the_log_end_stays_when_its_last_batch_is_damaged(tmp_path):
    batches = [text(offset) for offset in range(0, 20, 5)]
    damaged = batches[-1][:-3] + b"???"
    simple_log(tmp_path, *batches[:-1], damaged)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    report = result.partitions[0]
    assert (report["logEndOffset"], holes(report)) == (20, [(15, 20)])
    [*_, end] = made_again(tmp_path / "target/orders-0/00000000000000000000.log")
    assert (end.base_offset, end.last_offset, end.record_count) == (15, 19, 0)


def test_fault_139_a_control_record_that_no_broker_loads_goes(tmp_path):
    producer = Producer(id=9)
    bad = builders.control_batch(1, b"\0", 5, producer=producer, transactional=True)
    unknown = builders.control_batch(99, b"", 6, producer=producer, transactional=True)
    good = builders.end_marker(7, producer, commit=True)
    simple_log(tmp_path, text(0), bad, unknown, good)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert log_bytes(tmp_path / "target") == text(0) + good
    assert [each["kind"] for each in result.partitions[0]["dropped"]] == ["unloadable"] * 2


def test_the_log_start_stays_when_the_first_segment_is_lost(tmp_path):
    random = Random(1)
    made = make_log(tmp_path / "source", random, transactions=False)
    made.path(0).write_bytes(random.randbytes(made.path(0).stat().st_size))
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    report = result.partitions[0]
    assert (report["logStartOffset"], report["logEndOffset"]) == (0, made.next_offset)
    first = min(base for base in made.bases if base)
    assert holes(report) == [(0, first)]


def test_offsets_that_compaction_took_are_not_missing(tmp_path):
    sparse = [
        builders.batch([Rec(b"a", offset=at), Rec(b"b", offset=at + 7)], at)
        for at in range(0, 200, 20)
    ]
    damaged = sparse[4][:-1] + b"?"
    simple_log(tmp_path, *sparse[:4], damaged, *sparse[5:])
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert holes(result.partitions[0]) == [(68, 100)]
    assert log_bytes(tmp_path / "target") == b"".join(sparse[:4] + sparse[5:])


def test_a_lost_segment_of_a_compacted_log_is_missing_if_its_index_is_there(tmp_path):
    sparse = [
        builders.batch([Rec(b"a", offset=at), Rec(b"b", offset=at + 7)], at)
        for at in range(0, 200, 20)
    ]
    folder = simple_log(tmp_path, *sparse[:4]).folder
    (folder / f"{160:020}.log").write_bytes(b"".join(sparse[8:]))
    (folder / f"{100:020}.index").write_bytes(b"")
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert holes(result.partitions[0]) == [(100, 160)]
    assert result.lost_something


def test_a_batch_of_an_impossible_leader_epoch_stays_and_is_named(tmp_path):
    batches = [text(offset, epoch=2) for offset in range(0, 50, 5)]
    batches[4] = text(20, epoch=999)
    simple_log(tmp_path, *batches)
    result = rebuild(str(tmp_path / "source"), str(tmp_path / "target"))
    assert log_bytes(tmp_path / "target") == b"".join(batches)
    assert "999" in " ".join(result.partitions[0]["notes"])


def test_the_chain_with_the_most_records_is_found():
    random = Random(7)
    for _ in range(200):
        table = np.zeros(random.randrange(1, 9), BATCH_ROW.dtype)
        table["base_offset"] = [random.randrange(20) for _ in table]
        table["last_offset"] = table["base_offset"] + [random.randrange(4) for _ in table]
        table["record_count"] = [random.randrange(1, 5) for _ in table]
        rows = heaviest_chain(Ranges.of(table), table["record_count"].tolist())
        assert is_chain(table, rows)
        best = max(
            weight(table, chosen)
            for mask in range(1 << len(table))
            if is_chain(table, chosen := [row for row in range(len(table)) if mask >> row & 1])
        )
        assert weight(table, rows) == best


def is_chain(table: np.ndarray, rows: list[int]) -> bool:
    pairs = itertools.pairwise(rows)
    return all(table["last_offset"][a] < table["base_offset"][b] for a, b in pairs)


def weight(table: np.ndarray, rows: list[int]) -> int:
    return sum(int(table["record_count"][row]) for row in rows)
