"""The builders of bytes: what they index is where they say it is."""

import struct

from engine.coding.checksums import crc32c
from engine.record.default_records import DefaultRecordBatch
from engine.record.memory_records import MemoryRecords
from tests.builders import (
    Aborted,
    Rec,
    SnapshotEntry,
    batch,
    is_valid,
    message,
    patched,
    resealed,
    segment_files,
    write_segment,
)

BATCHES = [batch([Rec(bytes(600), timestamp=1000 + n % 7)], 100 + n) for n in range(30)]


def test_index_entries_point_at_the_batches_they_name():
    files = segment_files(BATCHES, 100, index_interval=2000)
    assert sorted(files) == [f"{100:020}{kind}" for kind in (".index", ".log", ".timeindex")]
    log = files[f"{100:020}.log"]
    entries = list(struct.iter_unpack(">ii", files[f"{100:020}.index"]))
    assert len(entries) > 5
    for relative, position in entries:
        assert DefaultRecordBatch(log, position).last_offset == 100 + relative
    times = list(struct.iter_unpack(">qi", files[f"{100:020}.timeindex"]))
    assert times == sorted(times)
    assert times[-1] == (1006, 6)


def test_side_files_are_there_when_asked_for(tmp_path):
    path = write_segment(
        tmp_path / "orders-0",
        BATCHES,
        100,
        aborted=[Aborted(7, 100, 110, 90)],
        snapshot=[SnapshotEntry(7, last_offset=99)],
    )
    assert path.read_bytes() == b"".join(BATCHES)
    assert path.with_suffix(".txnindex").read_bytes() == struct.pack(">hqqqq", 0, 7, 100, 110, 90)
    snapshot = path.with_suffix(".snapshot").read_bytes()
    version, crc = struct.unpack_from(">hI", snapshot)
    assert (version, crc) == (1, crc32c(snapshot[6:]))


def test_a_resealed_batch_of_any_magic_is_valid_again():
    for data in (batch([Rec()]), message(0, b"k", b"v", magic=0), message(0, b"k", b"v")):
        broken = patched(data, len(data) - 1, b"\x07")
        assert not is_valid(next(MemoryRecords(broken).batches()))
        assert is_valid(next(MemoryRecords(resealed(broken)).batches()))
