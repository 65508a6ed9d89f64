"""Whatever is done to an index that is written, it holds what a list would, and its file the same bytes."""

from __future__ import annotations

import struct
import tempfile
from bisect import bisect_left, bisect_right
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.errors import InvalidOffsetError, OffsetOverflowError, StateError
from engine.index.offset_index import OffsetIndex
from engine.index.time_index import TimeIndex
from engine.index.transaction_index import AbortedTxn
from engine.units import NO_TIMESTAMP, OffsetPosition, TimestampOffset
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_time_index import WritableTimeIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex

BASE = 1_000_000
MAX_ENTRIES = 3000  # the warm end is 1024 entries of an offset index, 682 of a time index

STEPS = st.integers(1, 9)
COUNTS = st.one_of(st.integers(1, 5), st.integers(600, 1100))


class IndexMachine(RuleBasedStateMachine):
    """What both sorted indexes do: `model` are the entries, `file` the bytes that must be there."""

    entry: struct.Struct

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "0.index"
        self.max_size = MAX_ENTRIES * self.entry.size + 5  # rounded down
        self.model: list[tuple[int, int]] = []
        self.file = bytearray(MAX_ENTRIES * self.entry.size)
        self.index = self.open()

    def teardown(self) -> None:
        self.index.close()
        assert self.path.read_bytes() == self.used
        self.folder.cleanup()

    def open(self):
        raise AssertionError

    def offset_of(self, entry) -> int:
        raise AssertionError

    def packed(self, entry) -> bytes:
        raise AssertionError

    @property
    def used(self) -> bytes:
        return bytes(self.file[: len(self.model) * self.entry.size])

    @property
    def room(self) -> int:
        return len(self.file) // self.entry.size - len(self.model)

    def put(self, entry) -> None:
        at = len(self.model) * self.entry.size
        self.file[at : at + self.entry.size] = self.packed(entry)
        self.model.append(entry)

    def set_length(self, size: int) -> None:
        del self.file[size:]
        self.file.extend(bytes(size - len(self.file)))

    @rule()
    def truncate(self) -> None:
        self.index.truncate()
        self.model = []

    @rule(data=st.data())
    def truncate_to(self, data) -> None:
        offsets = [self.offset_of(entry) for entry in self.model]
        low, high = BASE - 3, (offsets[-1] if offsets else BASE) + 3
        target = data.draw(
            st.one_of(st.integers(low, high), st.sampled_from(offsets or [BASE])), label="target"
        )
        self.index.truncate_to(target)
        del self.model[bisect_left(offsets, target) :]

    @rule()
    def reset(self) -> None:
        self.index.reset()
        self.model = []
        self.set_length(self.max_size // self.entry.size * self.entry.size)

    @rule(more=st.integers(-2, MAX_ENTRIES), odd=st.integers(0, 7))
    def resize(self, more: int, odd: int) -> None:
        entries = max(len(self.model) + more, 0)
        size = entries * self.entry.size + odd
        if entries < len(self.model):
            with pytest.raises(ValueError, match="bytes of entries"):
                self.index.resize(size)
        else:
            rounded = size // self.entry.size * self.entry.size
            assert self.index.resize(size) == (rounded != len(self.file))
            self.set_length(rounded)

    @rule()
    def trim(self) -> None:
        self.index.trim_to_valid_size()
        self.set_length(len(self.used))

    @rule()
    def reopen(self) -> None:
        self.index.close()
        with pytest.raises(ValueError, match="is closed"):
            self.index.entry_at(0)
        self.set_length(len(self.used))
        self.index = self.open()

    @rule()
    def crash(self) -> None:
        """All of the file counts as entries then, until the index is made anew."""
        self.index.close_handler()
        self.index = self.open()
        assert self.index.entries == len(self.file) // self.entry.size
        self.reset()

    @rule(name=st.sampled_from(["0.index.swap", "0.index.deleted", "0.index"]))
    def rename(self, name: str) -> None:
        self.index.rename_to(self.path.with_name(name))
        self.path = self.path.with_name(name)

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @invariant()
    def is_the_model(self) -> None:
        assert list(self.index) == self.model
        assert self.index.entries == len(self.model)
        assert self.index.size_in_bytes == len(self.used)
        assert self.index.length == len(self.file)
        assert self.index.max_entries == len(self.file) // self.entry.size
        assert self.index.path == str(self.path)
        self.index.sanity_check()

    @invariant()
    def is_the_file(self) -> None:
        assert self.path.read_bytes() == self.file


class OffsetIndexMachine(IndexMachine):
    entry = struct.Struct(">ii")
    index: WritableOffsetIndex

    def open(self) -> WritableOffsetIndex:
        return WritableOffsetIndex(self.path, BASE, self.max_size)

    def offset_of(self, entry) -> int:
        return entry[0]

    def packed(self, entry) -> bytes:
        return self.entry.pack(entry[0] - BASE, entry[1])

    @property
    def last(self) -> tuple[int, int]:
        return self.model[-1] if self.model else (BASE, 0)

    @rule(count=COUNTS, step=STEPS)
    def append(self, count: int, step: int) -> None:
        for _ in range(min(count, self.room)):
            entry = OffsetPosition(self.last[0] + step, self.last[1] + 100 * step)
            self.index.append(*entry)
            self.put(entry)

    @rule(count=COUNTS, step=STEPS)
    def extend(self, count: int, step: int) -> None:
        more = np.arange(1, count + 1)
        offsets, positions = self.last[0] + more * step, self.last[1] + more * 100
        if count > self.room:
            with pytest.raises(ValueError, match="is full"):
                self.index.extend(offsets, positions)
            count = self.room
        self.index.extend(offsets[:count], positions[:count])
        for offset, position in zip(offsets[:count], positions[:count], strict=True):
            self.put(OffsetPosition(int(offset), int(position)))

    @precondition(lambda self: self.room > 2)
    @rule()
    def extend_out_of_order(self) -> None:
        offset, position = self.last[0] + 1, self.last[1] + 1
        for offsets in (
            [offset + 1, offset],
            [offset, offset],
            *[[offset - 1, offset]][: len(self.model)],
        ):
            with pytest.raises(InvalidOffsetError, match="do not ascend"):
                self.index.extend(np.array(offsets), np.array([position, position]))
        with pytest.raises(OffsetOverflowError):
            self.index.extend(np.array([offset, BASE + 2**31]), np.array([position, position]))
        with pytest.raises(ValueError, match="do not fit into"):
            self.index.extend(np.array([offset]), np.array([2**31]))

    @precondition(lambda self: self.room == 0)
    @rule()
    def append_to_full(self) -> None:
        with pytest.raises(ValueError, match="is full"):
            self.index.append(self.last[0] + 1, self.last[1] + 1)

    @precondition(lambda self: self.room and self.model)
    @rule(back=st.integers(0, 5))
    def append_out_of_order(self, back: int) -> None:
        with pytest.raises(InvalidOffsetError):
            self.index.append(self.last[0] - back, self.last[1] + 1)

    @precondition(lambda self: self.room)
    @rule(past=st.integers(0, 2**40))
    def append_too_far(self, past: int) -> None:
        with pytest.raises(OffsetOverflowError):
            self.index.append(BASE + 2**31 + past, self.last[1] + 1)
        with pytest.raises(ValueError, match="does not fit"):
            self.index.append(BASE + 2**31 - 1, 2**31 + past)

    @rule(data=st.data())
    def look_up(self, data) -> None:
        target = data.draw(st.integers(BASE - 3, self.last[0] + 3))
        slot = bisect_right([entry[0] for entry in self.model], target) - 1
        expected = self.model[slot] if slot >= 0 else OffsetPosition(BASE, 0)
        assert self.index.lookup(target) == expected
        assert OffsetIndex(self.used, BASE).lookup(target) == expected

    @rule(data=st.data())
    def upper_bound(self, data) -> None:
        position = data.draw(st.integers(0, self.last[1] + 3))
        slot = bisect_left([entry[1] for entry in self.model], position)
        expected = self.model[slot] if slot < len(self.model) else None
        assert self.index.upper_bound_for_fetch(OffsetPosition(BASE, 0), position) == expected

    @invariant()
    def knows_its_end(self) -> None:
        assert self.index.last_entry == self.last
        assert self.index.is_full == (self.room == 0)


class TimeIndexMachine(IndexMachine):
    entry = struct.Struct(">qi")
    index: WritableTimeIndex

    def open(self) -> WritableTimeIndex:
        return WritableTimeIndex(self.path, BASE, self.max_size)

    def offset_of(self, entry) -> int:
        return entry[1]

    def packed(self, entry) -> bytes:
        return self.entry.pack(entry[0], entry[1] - BASE)

    @property
    def last(self) -> tuple[int, int]:
        return self.model[-1] if self.model else (NO_TIMESTAMP, BASE)

    @rule(count=COUNTS, step=STEPS, forward=st.integers(0, 3))
    def append(self, count: int, step: int, forward: int) -> None:
        for _ in range(min(count, self.room - 1)):
            entry = TimestampOffset(self.last[0] + step, self.last[1] + forward)
            self.index.maybe_append(*entry)
            self.put(entry)

    @rule(count=COUNTS, step=STEPS, back=st.integers(0, 3))
    def extend(self, count: int, step: int, back: int) -> None:
        """The times that are not above the last one are left out."""
        more = np.arange(1 - back, count + 1)
        timestamps, offsets = self.last[0] + more * step, self.last[1] + np.maximum(more, 0)
        if count > self.room - 1:
            with pytest.raises(ValueError, match="is full"):
                self.index.extend(timestamps, offsets)
            count = max(self.room - 1, 0)
        self.index.extend(timestamps[: back + count], offsets[: back + count])
        for timestamp, offset in zip(timestamps[back:], offsets[back : back + count], strict=False):
            self.put(TimestampOffset(int(timestamp), int(offset)))

    @precondition(lambda self: self.room > 3)
    @rule()
    def extend_out_of_order(self) -> None:
        time, offset = self.last[0] + 1, self.last[1]
        falls = [[offset + 1, offset]] + [[offset - 1, offset]] * (offset > BASE)
        for offsets in falls:
            with pytest.raises(InvalidOffsetError, match="do not ascend"):
                self.index.extend(np.array([time, time + 1]), np.array(offsets))
        with pytest.raises(StateError, match="do not ascend"):
            self.index.extend(np.array([time + 1, time]), np.array([offset, offset]))
        with pytest.raises(OffsetOverflowError):
            self.index.extend(np.array([time]), np.array([BASE + 2**31]))

    @precondition(lambda self: self.room >= 1)
    @rule(step=STEPS)
    def append_on_roll(self, step: int) -> None:
        entry = TimestampOffset(self.last[0] + step, self.last[1] + step)
        if self.room == 1:
            with pytest.raises(ValueError, match="is full"):
                self.index.maybe_append(*entry)
        self.index.maybe_append(*entry, skip_full_check=True)
        self.put(entry)

    @precondition(lambda self: self.room > 1 and self.model)
    @rule(forward=st.integers(0, 5))
    def append_the_same_time(self, forward: int) -> None:
        self.index.maybe_append(self.last[0], self.last[1] + forward)

    @precondition(lambda self: self.room > 1 and self.model)
    @rule(back=st.integers(1, 5))
    def append_out_of_order(self, back: int) -> None:
        with pytest.raises(InvalidOffsetError):
            self.index.maybe_append(self.last[0] + 1, self.last[1] - back)
        with pytest.raises(StateError):
            self.index.maybe_append(self.last[0] - back, self.last[1] + 1)

    @precondition(lambda self: self.room > 1)
    @rule(past=st.integers(0, 2**40))
    def append_too_far(self, past: int) -> None:
        with pytest.raises(OffsetOverflowError):
            self.index.maybe_append(self.last[0] + 1, BASE + 2**31 + past)

    @rule(data=st.data())
    def look_up(self, data) -> None:
        target = data.draw(st.integers(-3, self.last[0] + 3))
        slot = bisect_right([entry[0] for entry in self.model], target) - 1
        expected = self.model[slot] if slot >= 0 else TimestampOffset(NO_TIMESTAMP, BASE)
        assert self.index.lookup(target) == expected
        assert TimeIndex(self.used, BASE).lookup(target) == expected

    @invariant()
    def knows_its_end(self) -> None:
        assert self.index.last_entry == self.last
        assert self.index.is_full == (self.room <= 1)


class TransactionIndexMachine(RuleBasedStateMachine):
    """The `model` are the transactions; `last` is what the open index remembers of its own appends."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "0.txnindex"
        self.model: list[AbortedTxn] = []
        self.last: int | None = None
        self.exists = False
        self.index = WritableTransactionIndex(0, self.path)

    def teardown(self) -> None:
        self.index.close()
        self.folder.cleanup()

    @property
    def end(self) -> int:
        return self.model[-1].last_offset if self.model else -1

    @rule(step=STEPS, size=st.integers(0, 30), stable=st.integers(0, 20), producer=STEPS)
    def append(self, step: int, size: int, stable: int, producer: int) -> None:
        last = self.end + step
        each = AbortedTxn(0, producer - 1, max(last - size, 0), last, max(last - stable, 0))
        self.index.append(each)
        self.model.append(each)
        self.last = last
        self.exists = True

    @precondition(lambda self: self.last is not None)
    @rule(back=st.integers(0, 5))
    def append_out_of_order(self, back: int) -> None:
        with pytest.raises(ValueError, match="does not follow"):
            self.index.append(AbortedTxn(0, 1, 0, self.last - back, 0))

    @rule(data=st.data())
    def truncate_to(self, data) -> None:
        target = data.draw(st.integers(-1, self.end + 3))
        kept = [each for each in self.model if each.last_offset < target]
        self.index.truncate_to(target)
        if len(kept) < len(self.model):
            self.model = kept
            self.last = kept[-1].last_offset if kept else None

    @rule()
    def reset(self) -> None:
        self.index.reset()
        self.model, self.last = [], None

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @rule(torn=st.integers(0, 33))
    def reopen(self, torn: int) -> None:
        """Part of an entry at the end does not count, and the next one takes its place."""
        self.index.close()
        if self.exists:
            with self.path.open("r+b") as out:
                out.truncate(len(self.model) * 34)
                out.seek(0, 2)
                out.write(bytes(torn))
        self.index = WritableTransactionIndex(0, self.path)
        self.last = None

    @rule(name=st.sampled_from(["0.txnindex.swap", "0.txnindex.deleted", "0.txnindex"]))
    def rename(self, name: str) -> None:
        self.index.rename_to(self.path.with_name(name))
        self.path = self.path.with_name(name)

    @rule(data=st.data())
    def collect(self, data) -> None:
        start = data.draw(st.integers(0, self.end + 3))
        end = data.draw(st.integers(start, self.end + 6))
        complete = [i for i, each in enumerate(self.model) if each.last_stable_offset >= end]
        asked = self.model[: complete[0] + 1] if complete else self.model
        found = [each for each in asked if each.last_offset >= start and each.first_offset < end]
        assert self.index.collect_aborted_txns(start, end) == (found, bool(complete))

    @invariant()
    def is_the_model(self) -> None:
        assert self.index.all_aborted_txns() == self.model
        assert len(self.index) == len(self.model)
        assert self.index.is_empty == (not self.model)
        assert self.path.exists() == self.exists
        if self.exists:
            data = b"".join(struct.pack(">hqqqq", *each) for each in self.model)
            assert self.path.read_bytes()[: len(data)] == data
            assert self.path.stat().st_size - len(data) < 34
        self.index.sanity_check()


class TestOffsetIndex(OffsetIndexMachine.TestCase):
    settings = settings(stateful_step_count=30)


class TestTimeIndex(TimeIndexMachine.TestCase):
    settings = settings(stateful_step_count=30)


class TestTransactionIndex(TransactionIndexMachine.TestCase):
    settings = settings(stateful_step_count=40)
