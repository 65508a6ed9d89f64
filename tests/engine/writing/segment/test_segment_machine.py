"""A segment against a list of batches: appended to, read, truncated, closed, torn and recovered."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.errors import OffsetOverflowError
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT32, MAX_INT64, NO_TIMESTAMP
from engine.writing.log_config import LogConfig
from engine.writing.segment.rolling import RollParams
from engine.writing.segment.segment_recovery import recover
from engine.writing.segment.writable_segment import WritableSegment
from tests.clocks import MockClock
from tests.conformance.writable_segments import new_producer_state

BASE = 1000
CONFIG = LogConfig(index_interval=150, max_index_size=4096)


class Batch(NamedTuple):
    base: int
    timestamps: list[int]
    data: bytes

    @property
    def last(self) -> int:
        return self.base + len(self.timestamps) - 1

    @property
    def max_timestamp(self) -> int:
        return max(self.timestamps)


BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 7]),  # offsets left out before it
        st.lists(st.integers(-1, 40), min_size=1, max_size=4),
        st.sampled_from([0, 10, 200]),  # bytes of each value
        st.sampled_from([2, 2, 1, 0]),
    ),
    min_size=1,
    max_size=4,
)


def batch_of(base: int, timestamps: list[int], size: int, magic: int) -> Batch:
    if magic == 0:
        timestamps = [NO_TIMESTAMP]
    if magic < 2:  # a message set has a batch per record
        timestamps = timestamps[:1]
    records = [SimpleRecord(value=bytes(size), timestamp=each) for each in timestamps]
    made = records_of(*records, base_offset=base, magic=magic)
    return Batch(base, timestamps, bytes(made.buffer))


class SegmentMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = MockClock()
        self.model: list[Batch] = []
        self.next_offset = BASE  # offsets that were truncated come again

    @initialize()
    def make(self) -> None:
        self.segment = WritableSegment.open(self.folder, BASE, CONFIG, self.clock)
        self.created = self.clock.ms

    def teardown(self) -> None:
        self.segment.close_handlers()
        shutil.rmtree(self.folder)

    @property
    def size(self) -> int:
        return sum(len(batch.data) for batch in self.model)

    # What changes it

    @rule(batches=BATCHES)
    def append(self, batches: list[tuple[int, list[int], int, int]]) -> None:
        made = []
        for gap, timestamps, size, magic in batches:
            made.append(batch_of(self.next_offset + gap, timestamps, size, magic))
            self.next_offset = made[-1].last + 1
        data = b"".join(batch.data for batch in made)
        self.segment.append(made[-1].last, MemoryRecords(data))
        self.model += made

    @rule(distance=st.sampled_from([-1, MAX_INT32 + 1, 2**40]))
    def append_too_far(self, distance: int) -> None:
        records = records_of(SimpleRecord(value=b"x"), base_offset=BASE + distance)
        with pytest.raises(OffsetOverflowError):
            self.segment.append(BASE + distance, records)

    @rule(back=st.integers(0, 20))
    def truncate(self, back: int) -> None:
        target = self.next_offset - back
        kept = [batch for batch in self.model if batch.last < target]
        before = self.size
        gone = next((batch for batch in self.model if batch.last >= target), None)
        if gone is not None:
            kept = self.model[: self.model.index(gone)]
        self.model = kept
        assert self.segment.truncate_to(target) == before - self.size
        self.next_offset = kept[-1].last + 1 if kept else BASE
        if not kept:
            self.created = self.clock.ms

    @rule()
    def flush_and_trim(self) -> None:
        self.segment.flush()
        self.segment.on_become_inactive_segment()
        self.segment.indexes.resize(CONFIG.max_index_size)

    @rule()
    def close_and_reopen(self) -> None:
        self.segment.close()
        self.open_again()

    @rule(seed=st.integers(0, 10**6), tail=st.sampled_from([b"", b"\0" * 50, b"\xff" * 30]))
    def tear_and_recover(self, seed: int, tail: bytes) -> None:
        self.segment.close_handlers()
        path = Path(self.segment.log.path)
        data = path.read_bytes()[: random.Random(seed).randint(0, self.size)] + tail
        path.write_bytes(data)
        self.open_again()
        kept, position = 0, 0
        for batch in self.model:  # a tail of zeros may complete a batch that ended with zeros
            if not data.startswith(batch.data, position):
                break
            position += len(batch.data)
            kept += 1
        self.model = self.model[:kept]
        producers = new_producer_state(self.folder)
        assert recover(self.segment, producers) == len(data) - position
        self.segment.indexes.resize(CONFIG.max_index_size)
        self.next_offset = self.model[-1].last + 1 if self.model else BASE

    def open_again(self) -> None:
        self.segment = WritableSegment.open(
            self.folder, BASE, CONFIG, self.clock, file_already_exists=True
        )
        self.segment.indexes.resize(CONFIG.max_index_size)  # as whoever loads a log does
        self.created = self.clock.ms

    @rule()
    def rename(self) -> None:
        self.segment.files.change_suffixes("", ".swap")
        assert self.segment.files.has_suffix(".swap")
        self.segment.files.change_suffixes(".swap", "")

    # What is asked

    @rule(
        back=st.integers(-3, 30),
        max_size=st.sampled_from([0, 1, 100, 500, 10**6]),
        limit=st.sampled_from(["whole", "known", "unknown"]),
        at_least_one=st.booleans(),
    )
    def read(self, back: int, max_size: int, limit: str, at_least_one: bool) -> None:
        offset = self.next_offset - back
        position = 0
        found = None
        for batch in self.model:
            if batch.last >= offset:
                found = batch
                break
            position += len(batch.data)
        bounds = {"whole": MAX_INT64, "known": position + 150, "unknown": None}
        fetched = self.segment.read(offset, max_size, bounds[limit], at_least_one)
        if found is None:
            assert fetched is None
            return
        assert fetched is not None
        assert fetched.fetch_offset_metadata == (found.base, BASE, position)
        wanted = max(max_size, len(found.data)) if at_least_one else max_size
        data = b"".join(batch.data for batch in self.model)[position : position + wanted]
        if limit == "unknown" or not wanted:
            assert fetched.records.size == 0
            return
        if limit == "known":
            data = data[:150]
        got = bytearray(fetched.records.size)
        fetched.records.read_into(got, position)  # type: ignore[union-attr]
        assert got == data
        assert fetched.first_entry_incomplete == (wanted < len(found.data))

    @rule(timestamp=st.integers(-1, 45), back=st.integers(0, 30))
    def find(self, timestamp: int, back: int) -> None:
        start = max(self.next_offset - back, BASE)
        expected = next(
            (
                (each, batch.base + index)
                for batch in self.model
                for index, each in enumerate(batch.timestamps)
                if each >= timestamp and batch.base + index >= start
            ),
            None,
        )
        found = self.segment.find_offset_by_timestamp(timestamp, start)
        assert (None if found is None else found[:2]) == expected

    @rule(passed=st.integers(0, 100), incoming=st.integers(-1, 100), limit=st.integers(1, 60))
    def ask_to_roll(self, passed: int, incoming: int, limit: int) -> None:
        self.clock.sleep(passed)
        now = self.clock.ms
        first = self.model[0].max_timestamp if self.model else -1
        waited = incoming - first if first >= 0 else now - self.created
        assert self.segment.age.waited(now, incoming) == waited
        params = RollParams(limit, MAX_INT32, incoming, self.next_offset, 100, now)
        assert self.segment.should_roll(params) == (bool(self.model) and waited > limit)
        full = params._replace(max_segment_ms=MAX_INT64, max_segment_size=self.size + 99)
        assert self.segment.should_roll(full)
        assert not self.segment.should_roll(full._replace(max_segment_size=self.size + 100))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def translate(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.model) - 1))
        batch = self.model[at]
        found = self.segment.translate_offset(batch.last)
        position = sum(len(each.data) for each in self.model[:at])
        assert found == (batch.base, batch.last, position, len(batch.data))

    # What is always so

    @invariant()
    def size_and_end_agree(self) -> None:
        assert self.segment.size == self.size
        assert self.segment.read_next_offset() == self.next_offset

    @invariant()
    def the_largest_timestamp_is_known(self) -> None:
        largest = max((batch.max_timestamp for batch in self.model), default=-1)
        assert self.segment.indexes.largest.timestamp == largest

    @invariant()
    def index_entries_are_of_batches(self) -> None:
        position, places = 0, {}
        for batch in self.model:
            places[batch.last] = position
            position += len(batch.data)
        for offset, position in self.segment.offset_index:
            assert places[offset] == position
        for timestamp, offset in self.segment.time_index:
            assert offset in places
            before = [batch.max_timestamp for batch in self.model if batch.last <= offset]
            assert max(before) == timestamp


TestSegment = SegmentMachine.TestCase
TestSegment.settings = settings(stateful_step_count=40)
