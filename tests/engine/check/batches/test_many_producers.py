"""Logs of very many producers: what is followed of each is small, and findings about them are bounded."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

from engine.check.rules.rules import Severity
from engine.coding.checksums import crc32c
from engine.state.producer_snapshot import ProducerSnapshot
from engine.state.producer_state_entry import BatchMetadata, ProducerStateEntry
from tests.builders import Producer, Rec, batch
from tests.engine.check.logs import bad, found

PRODUCERS = 8000
SEGMENTS = 4
START = 1_700_000_000_000
MOST_BYTES_EACH = 900
"""With 200,000 producers, the most that are followed, 180 MB."""


def log_of(folder: Path, *, epoch_in_snapshots: int = 0) -> Path:
    """One batch of each producer, and snapshots of all that came before at the end of each segment."""
    folder.mkdir()
    form = bytearray(batch([Rec(b"v", b"k", START)], 0, producer=Producer(id=1, sequence=0)))
    entries: list[ProducerStateEntry] = []
    each = PRODUCERS // SEGMENTS
    for base in range(0, PRODUCERS, each):
        batches = []
        for offset in range(base, base + each):
            struct.pack_into(">q", form, 0, offset)
            struct.pack_into(">q", form, 43, 1000 + offset)
            struct.pack_into(">I", form, 17, crc32c(bytes(form[21:])))
            batches.append(bytes(form))
            entry = ProducerStateEntry(1000 + offset)
            entry.add_batch(epoch_in_snapshots, BatchMetadata(0, offset, 0, START))
            entries.append(entry)
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
        snapshot = folder / f"{base + each:020}.snapshot"
        snapshot.write_bytes(ProducerSnapshot.render(entries))
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return folder


def test_what_is_followed_of_a_producer_is_small(tmp_path: Path) -> None:
    folder = log_of(tmp_path / "many-0")
    tracemalloc.start()
    try:
        findings = bad(found(folder))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert {each.rule for each in findings} <= {"index-missing", "time-index-missing"}
    assert peak < 8_000_000 + PRODUCERS * MOST_BYTES_EACH


def test_a_snapshot_that_is_wrong_of_every_producer_is_listed_in_part_and_counted(
    tmp_path: Path,
) -> None:
    folder = log_of(tmp_path / "many-0", epoch_in_snapshots=3)
    wrong = [each for each in found(folder) if each.rule == "snapshot-producer"]
    assert {each.severity for each in wrong} == {Severity.WARNING}
    for count in range(1, SEGMENTS + 1):
        total = PRODUCERS // SEGMENTS * count
        name = f"{total:020}.snapshot"
        of_file = [each for each in wrong if each.file.endswith(name)]
        assert len(of_file) == 1001
        assert of_file[-1].text.startswith(f"{total - 1000} more like these")
