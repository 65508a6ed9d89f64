"""Whatever producers append, and however the log is cut and loaded again, their state is that of the log."""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    ProducerStateError,
    TransactionCoordinatorFencedError,
)
from engine.files.file_names import producer_snapshot_name
from engine.record.memory_records import MemoryRecords
from engine.record.record_batch import RecordBatch
from engine.units import TopicPartition
from engine.writing.state.append_origin import AppendOrigin
from engine.writing.state.producer_state_manager import ProducerStateManager
from tests import builders
from tests.builders import Producer, Rec

PRODUCERS = st.sampled_from([1, 2, 17])
STEP = st.sampled_from([0] * 12 + [1, -1])
START_MS = 1_000_000


def parsed(data: bytes) -> RecordBatch:
    (batch,) = MemoryRecords(data).batches()
    return batch


@dataclass
class Known:
    """What the model knows of a producer; batches are (first and last sequence, first and last offset)."""

    epoch: int = -1
    coordinator: int = -1
    timestamp: int = -1
    begun: int | None = None
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)

    def enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batches = epoch, []


@dataclass
class Model:
    """Producers and ended transactions, by the plainest rules; `apply` takes what was accepted."""

    producers: dict[int, Known] = field(default_factory=dict)
    ended: list[tuple[int, int]] = field(default_factory=list)

    def known(self, producer: int) -> Known:
        return self.producers.get(producer, Known())

    def apply(self, batch: RecordBatch) -> None:
        known = self.producers.setdefault(batch.producer_id, Known())
        known.enter(batch.producer_epoch)
        known.timestamp = batch.max_timestamp
        if batch.is_control:
            if known.begun is not None:
                self.ended.append((known.begun, batch.last_offset))
            known.begun = None
            (record,) = batch.records()
            known.coordinator = int.from_bytes(record.value[2:], "big")
            return
        sequences = (batch.base_sequence, batch.last_sequence)
        known.batches = [*known.batches, (*sequences, batch.base_offset, batch.last_offset)][-5:]
        if batch.is_transactional and known.begun is None:
            known.begun = batch.base_offset

    def refusal(self, batch: RecordBatch) -> type[ProducerStateError] | None:
        known = self.known(batch.producer_id)
        if batch.producer_epoch < known.epoch:
            return InvalidProducerEpochError
        if batch.is_control:
            (record,) = batch.records()
            fenced = int.from_bytes(record.value[2:], "big") < known.coordinator
            return TransactionCoordinatorFencedError if fenced else None
        if known.epoch >= 0:
            last = known.batches[-1][1] if known.batches else -1
            follows = 0 if batch.producer_epoch > known.epoch else (last + 1) % 2**31
            if batch.base_sequence != follows:
                return OutOfOrderSequenceError
        if known.begun is not None and not batch.is_transactional:
            return InvalidTxnStateError
        return None

    def open_ones(self) -> list[int]:
        return sorted(each.begun for each in self.producers.values() if each.begun is not None)

    def snapshot(self) -> Model:
        """What a snapshot keeps: the last batch of each, and no ended transactions."""
        kept = Model(copy.deepcopy(self.producers))
        for known in kept.producers.values():
            known.batches = known.batches[-1:]
        return kept


class ProducerStates(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.now = START_MS
        self.log: list[RecordBatch] = []
        self.start = self.end = self.watermark = 0
        self.model = Model()
        self.snapshots: dict[int, Model] = {}
        self.snapshot_offset = 0
        self.open()

    def teardown(self) -> None:
        self.temporary.cleanup()

    def open(self) -> None:
        self.manager = ProducerStateManager(TopicPartition("t", 0), self.folder, 60_000)

    # Appending

    def append(self, batch: RecordBatch) -> None:
        refusal = self.model.refusal(batch)
        origin = AppendOrigin.COORDINATOR if batch.is_control else AppendOrigin.CLIENT
        info = self.manager.prepare_update(batch.producer_id, origin)
        if refusal is not None:
            with pytest.raises(refusal):
                info.append(batch, None, 0)
            return
        completed = info.append(batch, None, 0)
        begun = self.model.known(batch.producer_id).begun
        assert (completed is not None) == (batch.is_control and begun is not None)
        self.manager.update(info)
        if completed is not None:
            others = [each for each in self.model.open_ones() if each != begun]
            expected = min(others, default=batch.last_offset + 1)
            assert self.manager.last_stable_offset(completed) == expected
            assert completed[:3] == (batch.producer_id, begun, batch.last_offset)
            self.manager.complete_txn(completed)
        self.end = batch.last_offset + 1
        self.manager.update_map_end_offset(self.end)
        self.model.apply(batch)
        self.log.append(batch)

    @rule(
        producer=PRODUCERS,
        epoch=STEP,
        sequence=STEP,
        count=st.integers(1, 3),
        wraps=st.sampled_from([False] * 9 + [True]),
        flips=st.sampled_from([False] * 9 + [True]),
        begins=st.booleans(),
        times=st.sampled_from([1, 1, 2, 6]),
    )
    def write(
        self,
        producer: int,
        epoch: int,
        sequence: int,
        count: int,
        wraps: bool,
        flips: bool,
        begins: bool,
        times: int,
    ) -> None:
        self.write_once(producer, epoch, sequence, count, wraps, flips, begins)
        for _ in range(times - 1):
            self.write_once(producer, 0, 0, count, False, False, begins)

    def write_once(
        self,
        producer: int,
        epoch: int,
        sequence: int,
        count: int,
        wraps: bool,
        flips: bool,
        begins: bool,
    ) -> None:
        known = self.model.known(producer)
        self.now += 10
        next_sequence = known.batches[-1][1] + 1 if known.batches else 0
        if wraps and known.epoch < 0:
            next_sequence = 2**31 - 2
        if epoch > 0:
            next_sequence = 0
        transactional = (known.begun is not None or begins) != flips
        who = Producer(
            id=producer,
            epoch=max(known.epoch + epoch, 0),
            sequence=max(next_sequence + sequence, 0) % 2**31,
        )
        records = [Rec(timestamp=self.now)] * count
        data = builders.batch(records, self.end, producer=who, transactional=transactional)
        self.append(parsed(data))

    @rule(producer=PRODUCERS, epoch=STEP, commit=st.booleans(), coordinator=st.integers(0, 2))
    def mark(self, producer: int, epoch: int, commit: bool, coordinator: int) -> None:
        self.now += 10
        who = Producer(id=producer, epoch=max(self.model.known(producer).epoch + epoch, 0))
        data = builders.end_marker(
            self.end, who, commit=commit, coordinator_epoch=coordinator, timestamp=self.now
        )
        self.append(parsed(data))

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def write_again(self, data: st.DataObject) -> None:
        again = data.draw(st.sampled_from(self.log))
        entry = self.manager.last_entry(again.producer_id)
        if entry is None or again.is_control:
            return
        known = self.model.known(again.producer_id)
        sequences = (again.base_sequence, again.last_sequence)
        same = [each for each in known.batches if each[:2] == sequences]
        if known.epoch != again.producer_epoch:
            same = []
        found = entry.find_duplicate_batch(again)
        assert (found is not None) == bool(same)
        if found is not None:
            assert (found.first_offset, found.last_offset) == same[0][2:]

    # Snapshots, cuts and loads

    @rule(sync=st.booleans())
    def take_snapshot(self, sync: bool) -> None:
        path = self.manager.take_snapshot(sync)
        assert (path is not None) == (self.end > self.snapshot_offset)
        if path is not None:
            assert path.name == producer_snapshot_name(self.end)
            self.snapshots[self.end] = self.model.snapshot()
            self.snapshot_offset = self.end

    @rule(data=st.data())
    def move_watermark(self, data: st.DataObject) -> None:
        self.watermark = data.draw(
            st.sampled_from([self.watermark, (self.watermark + self.end) // 2, self.end])
        )
        self.manager.on_high_watermark_updated(self.watermark)
        self.forget_ended_before(self.watermark)

    @rule(data=st.data())
    def delete_snapshots(self, data: st.DataObject) -> None:
        before = data.draw(st.sampled_from([0, *self.snapshots, self.end + 1]))
        self.manager.snapshots.delete_before(before)
        self.snapshots = {o: each for o, each in self.snapshots.items() if o >= before}

    @rule(data=st.data())
    def move_log_start(self, data: st.DataObject) -> None:
        self.move_start(data)
        self.manager.on_log_start_offset_incremented(self.start)
        self.after_log_start_moved()

    @rule(data=st.data(), cuts=st.booleans())
    def cut(self, data: st.DataObject, cuts: bool) -> None:
        """What a log does when it is truncated, or not at all."""
        if cuts:
            ends = [each.base_offset for each in self.log] or [self.end]
            self.end = data.draw(st.sampled_from([*ends, self.end]))
        was_there = self.manager.map_end_offset == self.end
        self.watermark = min(self.watermark, self.end)
        self.log = [each for each in self.log if each.last_offset < self.end]
        self.reload(loads=not was_there)

    @rule(corrupts=st.booleans())
    def restart(self, corrupts: bool) -> None:
        """Another manager; the newest snapshot may have been damaged."""
        usable = [offset for offset in self.snapshots if self.start < offset <= self.end]
        if corrupts and usable:
            newest = max(usable)
            path = self.folder / producer_snapshot_name(newest)
            path.write_bytes(path.read_bytes()[:-1])
            del self.snapshots[newest]
        self.open()
        self.reload(loads=self.end != 0)

    def reload(self, *, loads: bool) -> None:
        """Load what a snapshot has, and follow the batches after it."""
        self.manager.truncate_and_reload(self.start, self.end, self.now)
        self.snapshots = {
            o: each for o, each in self.snapshots.items() if self.start < o <= self.end
        }
        if not loads:
            self.after_log_start_moved()
            return
        loaded = max(self.snapshots, default=self.start)
        self.snapshot_offset = loaded
        assert self.manager.map_end_offset == loaded
        self.model = self.snapshots[loaded].snapshot() if self.snapshots else Model()
        for batch in self.log:
            if batch.base_offset >= loaded:
                info = self.manager.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
                completed = info.append(batch)
                self.manager.update(info)
                if completed is not None:
                    self.manager.complete_txn(completed)
                self.model.apply(batch)
        self.manager.update_map_end_offset(self.end)
        self.manager.on_high_watermark_updated(self.watermark)
        self.forget_ended_before(self.watermark)

    @precondition(lambda self: self.end > 0)
    @rule()
    def start_over(self) -> None:
        self.manager.truncate_fully_and_start_at(self.end)
        self.start, self.log, self.model = self.end, [], Model()
        self.snapshots, self.snapshot_offset = {}, 0

    def move_start(self, data: st.DataObject) -> None:
        starts = [self.start, *(each.base_offset for each in self.log), self.end]
        self.start = data.draw(st.sampled_from(starts))
        self.log = [each for each in self.log if each.base_offset >= self.start]
        self.watermark = max(self.watermark, self.start)

    def after_log_start_moved(self) -> None:
        self.forget_ended_before(self.start)
        self.snapshot_offset = max(self.snapshots, default=self.start)

    def forget_ended_before(self, offset: int) -> None:
        self.model.ended = [each for each in self.model.ended if each[1] >= offset]

    # What must be true

    @invariant()
    def producers_are_the_models(self) -> None:
        found = {
            producer: Known(
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_timestamp,
                entry.current_txn_first_offset,
                [
                    (
                        each.first_sequence,
                        each.last_sequence,
                        each.first_offset,
                        each.last_offset,
                    )
                    for each in entry.batches
                ],
            )
            for producer, entry in self.manager.active_producers.items()
        }
        assert found == self.model.producers
        assert self.manager.is_empty == (not found and not self.model.ended)

    @invariant()
    def unstable_offsets_are_the_models(self) -> None:
        begun = self.model.open_ones()
        assert self.manager.first_undecided_offset == (begun[0] if begun else None)
        ended = [each[0] for each in self.model.ended]
        first = self.manager.first_unstable_offset
        assert (first.offset if first else None) == min(begun + ended, default=None)

    @invariant()
    def snapshots_are_the_models(self) -> None:
        assert self.manager.map_end_offset == self.end
        assert self.manager.snapshots.oldest == min(self.snapshots, default=None)
        assert self.manager.latest_snapshot_offset == max(self.snapshots, default=None)
        for offset in self.snapshots:
            snapshot = self.manager.snapshots.get(offset)
            assert snapshot is not None
            assert snapshot.path.exists()

    @invariant()
    def a_transaction_is_late_when_its_producer_was_silent(self) -> None:
        first = min(
            (each for each in self.model.producers.values() if each.begun is not None),
            key=lambda each: each.begun or 0,
            default=None,
        )
        late_at = None if first is None else first.timestamp + 360_000
        assert not self.manager.has_late_transaction(late_at or 2**62)
        assert self.manager.has_late_transaction((late_at or 2**62) + 1) == (late_at is not None)


class TestProducerStates(ProducerStates.TestCase):
    settings = settings(stateful_step_count=60, deadline=None, max_examples=100)
