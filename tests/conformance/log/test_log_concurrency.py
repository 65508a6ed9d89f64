"""What Kafka's LogConcurrencyTest asks: a reader beside a writer never sees what was not committed."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from random import Random

import pytest

from engine.log.segment.fetch import FetchIsolation
from engine.log.segment.scan import BatchRun
from tests.builders import last_offset
from tests.engine.log.folders import LogWriter

MAX_OFFSET = 2000


class Replica:
    """Leads and follows in turn; as a follower it cuts off what was not replicated."""

    def __init__(self, writer: LogWriter, rolls_after: int | None) -> None:
        self.writer = writer
        self.rolls_after = rolls_after
        self.random = Random(7)
        self.high_watermark = 0
        self.epoch = 1
        self.is_leader = True

    def run(self) -> None:
        while self.high_watermark < MAX_OFFSET:
            if self.random.randrange(2):
                self.append()
            else:
                self.is_leader = not self.is_leader
                self.epoch += 1
                if not self.is_leader:
                    self.truncate()

    def append(self) -> None:
        end = self.writer.next_offset
        values = [b"%d" % number for number in range(self.random.randrange(2, 11))]
        active = self.writer.records_file.stat().st_size
        if self.rolls_after is not None and active > self.rolls_after:
            self.writer.roll(index_interval=None)
        self.writer.append_records(*values, leader_epoch=self.epoch)
        self.high_watermark = end
        self.writer.high_watermark(end)

    def truncate(self) -> None:
        """Down to the high watermark, which is where a batch starts, perhaps in the segment before."""
        writer = self.writer
        while writer.base_offset > self.high_watermark:
            writer.records_file.unlink()
            bases = sorted(int(path.stem) for path in writer.folder.glob("*.log"))
            writer.base_offset = bases[-1]
            writer.batches = []
        data = writer.records_file.read_bytes()
        at = 0
        while at < len(data) and last_offset(data[at : at + 61]) < self.high_watermark:
            at += int.from_bytes(data[at + 8 : at + 12], "big") + 12
        os.truncate(writer.records_file, at)
        writer.next_offset = self.high_watermark


def check(tmp_path: Path, rolls_after: int | None) -> None:
    writer = LogWriter(tmp_path)
    log = writer.log
    replica = Replica(writer, rolls_after)
    appender = threading.Thread(target=replica.run)
    consumed: list[tuple[int, int]] = []
    appender.start()
    try:
        while appender.is_alive():
            # What is below the high watermark of a moment ago is committed in any later state of the log.
            try:
                fetched = log.view(max_age=0).read(
                    consumed[-1][0] if consumed else 0,
                    1,
                    FetchIsolation.HIGH_WATERMARK,
                    min_one_message=True,
                )
            except FileNotFoundError:
                continue  # a segment that was cut off between the listing and the look
            consumed += [
                (found.last_offset + 1, found.leader_epoch) for found in fetched.records.batches()
            ]
    finally:
        appender.join()
    final = [
        (int(row["last_offset"]) + 1, int(row["leader_epoch"]))
        for _, item in writer.view().runs()
        if isinstance(item, BatchRun)
        for row in item.table
    ]
    assert consumed == final[: len(consumed)]
    assert consumed


@pytest.mark.conformance("LogConcurrencyTest.testUncommittedDataNotConsumed")
def test_uncommitted_data_not_consumed(tmp_path: Path) -> None:
    check(tmp_path, None)


@pytest.mark.conformance("LogConcurrencyTest.testUncommittedDataNotConsumedFrequentSegmentRolls")
def test_uncommitted_data_not_consumed_frequent_segment_rolls(tmp_path: Path) -> None:
    check(tmp_path, 237)
