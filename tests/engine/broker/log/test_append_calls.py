"""How many calls an append makes, so that a slower way shows without a clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.clock import SYSTEM_CLOCK
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import ThreadScheduler
from tests.counted_calls import calls_of


def batch(base: int) -> MemoryRecords:
    """Ten records of 500 bytes."""
    now = SYSTEM_CLOCK.now_ms()
    inside = (SimpleRecord(b"k", bytes(500), now + place) for place in range(10))
    return records_of(*inside, base_offset=base, partition_leader_epoch=0)


@pytest.fixture
def log(tmp_path: Path):
    with ThreadScheduler() as scheduler:
        made = UnifiedLog.create(tmp_path / "orders-0", LogConfig(), scheduler)
        with made:
            made.append_as_follower(batch(0), 0)
            yield made


def test_an_append_of_one_batch_costs_few_calls(log: UnifiedLog) -> None:
    one = batch(0)
    log.append_as_leader(one, 0)  # which reads the time of the segment's first batch
    assert 60 <= calls_of(lambda: log.append_as_leader(one, 0), with_c=True) <= 115
    following = batch(log.log_end_offset)
    assert 45 <= calls_of(lambda: log.append_as_follower(following, 0), with_c=True) <= 90


def test_a_further_batch_of_an_append_costs_no_more_than_a_call(log: UnifiedLog) -> None:
    counts = []
    for batches in (10, 60):
        end = log.log_end_offset
        parts = [bytes(batch(end + 10 * place).buffer) for place in range(batches)]
        records = MemoryRecords(b"".join(parts))
        counts.append(
            calls_of(lambda records=records: log.append_as_follower(records, 0), with_c=True)
        )
    assert (counts[1] - counts[0]) / 50 <= 1


def test_the_index_entries_of_an_append_are_written_together(
    log: UnifiedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = MemoryRecords(b"".join(bytes(batch(10 * place).buffer) for place in range(1, 21)))
    index = log.segments[0].files.offset_index.get()
    written: list[int] = []
    write = type(index)._write

    def counted(self: object, entries: bytes, last: object) -> None:
        written.append(len(entries))
        write(self, entries, last)

    monkeypatch.setattr(type(index), "_write", counted)
    log.append_as_follower(records, 0)
    assert index.entries == 20
    assert written == [20 * 8]
