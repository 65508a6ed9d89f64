"""Readers need no lock: one thread appends, rolls and lets old segments go, others read meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path

from engine.errors import OffsetOutOfRangeError
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import FoundTimestamp
from engine.writing.log_config import LogConfig
from tests.conformance.local_logs import LocalLogSetUp

BATCHES = 3000
CONFIG = LogConfig(index_interval=200, max_index_size=40_000)


def value_of(offset: int) -> bytes:
    return b"%d " % offset * (offset % 7 + 1)


class Run:
    """A log of one record a batch, whose timestamps are their offsets."""

    def __init__(self, log_dir: Path) -> None:
        self.made = LocalLogSetUp(log_dir, CONFIG)
        self.log = self.made.log
        self.is_over = threading.Event()
        self.failures: list[BaseException] = []
        self.reads = 0

    def write(self) -> None:
        rng = random.Random(1)
        for offset in range(BATCHES):
            record = SimpleRecord(value=value_of(offset), timestamp=offset)
            self.log.append(offset, records_of(record, base_offset=offset))
            if rng.random() < 0.01:
                self.log.roll()
            if rng.random() < 0.003 and len(self.log.segments) > 3:
                first = self.log.segments.first
                assert first is not None
                self.log.remove_and_delete_segments([first], True, "it is old")

    def read(self) -> None:
        rng = random.Random()
        while not self.is_over.is_set():
            end = self.log.log_end_offset_metadata
            start = rng.randint(max(end.offset - 300, 0), end.offset)
            try:
                fetched = self.log.read(start, rng.choice([1, 100, 5000]), True, end)
            except OffsetOutOfRangeError:  # below the first segment that is left
                continue
            expected = fetched.fetch_offset_metadata.offset
            for batch in fetched.records.batches():
                batch.ensure_valid()
                (record,) = batch.records()
                assert (record.offset, record.value) == (expected, value_of(expected))
                assert record.offset < end.offset
                expected += 1
            if start < end.offset:
                assert expected > start
            self.reads += 1

    def look_up(self) -> None:
        rng = random.Random()
        while not self.is_over.is_set():
            end = self.log.log_end_offset
            wanted = rng.randint(max(end - 300, 0), end)
            segment = self.log.segments.floor(wanted)
            if segment is None or wanted == end:
                continue
            found = segment.find_offset_by_timestamp(wanted, segment.base_offset)
            assert found == FoundTimestamp(wanted, wanted, -1)
            position = segment.translate_offset(wanted)
            assert position is not None
            assert position.base_offset == wanted
            self.reads += 1

    def guarded(self, action: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                action()
            except BaseException as error:  # noqa: BLE001  handed on to the test's own thread
                self.failures.append(error)
                self.is_over.set()

        return run


def test_readers_see_whole_batches_in_order_while_the_log_grows(tmp_path: Path) -> None:
    run = Run(tmp_path)
    threads = [
        threading.Thread(target=run.guarded(action)) for action in (run.read, run.read, run.look_up)
    ]
    for thread in threads:
        thread.start()
    try:
        run.guarded(run.write)()
    finally:
        run.is_over.set()
        for thread in threads:
            thread.join(60)
    if run.failures:
        raise run.failures[0]
    assert run.log.log_end_offset == BATCHES
    assert len(run.log.segments) > 5
    assert run.reads > 20
    run.log.close()
