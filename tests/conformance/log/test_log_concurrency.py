"""What Kafka's LogConcurrencyTest asks: a reader beside a writer never sees what was not committed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.log.segment.fetch import FetchIsolation
from engine.record.encoding.building import records_of
from engine.units import MAX_INT32
from engine.writing.log_config import LogConfig
from engine.writing.scheduler import ThreadScheduler
from tests.conformance.unified_log_steps import fast_switches, rec

MAX_OFFSET = 5000


@pytest.fixture
def scheduler() -> Iterator[ThreadScheduler]:
    with ThreadScheduler(1) as made:
        yield made


class Turn:
    """What the reader waits for: the writer has done something, or is over."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.is_over = False


def consume(log: UnifiedLog, turn: Turn) -> list[tuple[int, int]]:
    """Base offset and leader epoch of each batch below the high watermark, in the order of the log."""
    consumed = []
    offset = 0
    while log.high_watermark < MAX_OFFSET:
        turn.done.clear()
        if turn.is_over:  # asked after `clear`, which might hide that the writer is over
            break
        fetched = log.read(offset, 1, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
        for batch in fetched.records.batches():
            consumed.append((batch.base_offset, batch.leader_epoch))
            offset = batch.last_offset + 1
        if not fetched.records.size:
            turn.done.wait()  # Kafka's reader spins, which costs twice the time here
    return consumed


def lead_and_follow(log: UnifiedLog, turn: Turn) -> None:
    """Append as leader and as follower in turn; a follower truncates what was not replicated."""
    random = Random(7)
    epoch, is_leader = 1, True
    while log.high_watermark < MAX_OFFSET:
        if random.randrange(2):
            is_leader = not is_leader
            epoch += 1
            if not is_leader:
                log.truncate_to(log.high_watermark)
        else:
            append(log, epoch, random.randint(1, 9) + 1, is_leader=is_leader)
        turn.done.set()


def append(log: UnifiedLog, epoch: int, count: int, *, is_leader: bool) -> None:
    """Append a batch; what was there before is replicated by then."""
    end = log.local_log.log_end_offset_metadata
    records = [rec(str(number)) for number in range(count)]
    if is_leader:
        log.append_as_leader(records_of(*records), epoch)
        log.maybe_increment_high_watermark(end)
    else:
        replicated = records_of(*records, base_offset=end.offset, partition_leader_epoch=epoch)
        log.append_as_follower(replicated, MAX_INT32)
        log.update_high_watermark(end.offset)


def check(log: UnifiedLog) -> None:
    turn = Turn()
    with log, fast_switches(), ThreadPoolExecutor(1) as pool:
        consuming = pool.submit(consume, log, turn)
        try:
            lead_and_follow(log, turn)
        finally:
            turn.is_over = True
            turn.done.set()
        consumed = consuming.result()
        final = [
            (batch.base_offset, batch.leader_epoch)
            for segment in log.segments
            for batch in segment.log.batches()
        ]
    assert consumed
    assert consumed == final[: len(consumed)]


@pytest.mark.conformance("LogConcurrencyTest.testUncommittedDataNotConsumed")
def test_uncommitted_data_not_consumed(tmp_path: Path, scheduler: ThreadScheduler) -> None:
    check(UnifiedLog.create(tmp_path / "topic-0", LogConfig(), scheduler))


@pytest.mark.conformance("LogConcurrencyTest.testUncommittedDataNotConsumedFrequentSegmentRolls")
def test_uncommitted_data_not_consumed_frequent_segment_rolls(
    tmp_path: Path, scheduler: ThreadScheduler
) -> None:
    check(UnifiedLog.create(tmp_path / "topic-0", LogConfig(segment_size=237), scheduler))
