"""A log is what a list of batches says it is, whatever was done to it in which order."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from engine.coding.compression import CompressionType
from engine.disk.disk import DISK
from engine.errors import (
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    UnexpectedAppendOffsetError,
)
from engine.log.segment.fetch import FetchDataInfo, FetchIsolation
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker, records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.record.record_batch import RecordBatch
from engine.writing.log_config import LogConfig
from engine.writing.state.append_origin import AppendOrigin
from tests.conformance.unified_log_steps import LogBench
from tests.engine.broker.log.log_model import LogModel, ModelBatch, Seen

CODECS = st.sampled_from(
    [
        CompressionType.NONE,
        CompressionType.NONE,
        CompressionType.GZIP,
        CompressionType.LZ4,
        CompressionType.ZSTD,
    ]
)
COUNTS = st.integers(1, 6)
PRODUCERS = st.integers(1, 4)
CONFIG = LogConfig(
    segment_size=900, index_interval=120, max_index_size=600, file_delete_delay_ms=1000
)


class LogMachine(RuleBasedStateMachine):
    """Appends as leader and as follower, and all that shortens, moves, closes and reopens a log."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.bench = LogBench(self.root)
        self.model = LogModel()
        self.leader_epoch = 0
        self.config = CONFIG
        self.log = self.bench.open(self.config, disk=DISK.without_syncs())

    def teardown(self) -> None:
        if hasattr(self, "root"):
            self.log.close()
            shutil.rmtree(self.root)

    # Appending

    def _records(self, count: int) -> list[SimpleRecord]:
        self.bench.clock.sleep(7)
        now, end = self.bench.now, self.model.end
        return [SimpleRecord(b"k%d" % (end + n), b"v" * n, now) for n in range(count)]

    def _append(
        self, records: list[SimpleRecord], gap: int | None, codec: CompressionType, **producer: Any
    ) -> None:
        """As a leader, or with a gap before it as a follower."""
        base = self.model.end + (gap or 0)
        batch = ModelBatch(
            [(base + n, each.timestamp, each.key, each.value) for n, each in enumerate(records)],
            **producer,
        )
        options = {**producer, "compression": codec}
        if gap is None:
            info = self.log.append_as_leader(records_of(*records, **options), self.leader_epoch)
        else:
            sent = records_of(
                *records, base_offset=base, partition_leader_epoch=self.leader_epoch, **options
            )
            info = self.log.append_as_follower(sent, self.leader_epoch)
        assert (info.first_offset, info.last_offset) == (batch.base, batch.last)
        self.model.append(batch, self.leader_epoch)

    @rule(count=COUNTS, gap=st.none() | st.integers(0, 3), codec=CODECS)
    def append_plain(self, count: int, gap: int | None, codec: CompressionType) -> None:
        self._append(self._records(count), gap, codec)

    @rule(producer_id=PRODUCERS, count=COUNTS, gap=st.none() | st.just(0), codec=CODECS)
    def append_of_producer(
        self, producer_id: int, count: int, gap: int | None, codec: CompressionType
    ) -> None:
        """Odd producers are transactional, even ones only idempotent."""
        known = self.log.producer_state.last_entry(producer_id)
        self._append(
            self._records(count),
            gap,
            codec,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0 if known is None else known.last_sequence + 1,
            is_transactional=producer_id % 2 == 1,
        )

    @rule(producer_id=st.sampled_from([1, 3]), commit=st.booleans())
    def end_transaction(self, producer_id: int, commit: bool) -> None:
        self.bench.clock.sleep(7)
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        marker = EndTransactionMarker(kind, 0)
        sent = end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp=self.bench.now
        )
        info = self.log.append_as_leader(
            sent, self.leader_epoch, AppendOrigin.COORDINATOR, transaction_version=0
        )
        record = (info.first_offset, self.bench.now, kind.record_key(), marker.value())
        self.model.append(
            ModelBatch([record], producer_id, 0, marker="commit" if commit else "abort"),
            self.leader_epoch,
        )

    @rule(producer_id=PRODUCERS)
    def refuse_what_contradicts_the_producer(self, producer_id: int) -> None:
        known = self.log.producer_state.last_entry(producer_id)
        if known is None or known.is_empty:
            return
        options: dict[str, Any] = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": known.last_sequence + 2,
            "is_transactional": producer_id % 2 == 1,
        }
        records = self._records(1)
        with pytest.raises(OutOfOrderSequenceError):
            self.log.append_as_leader(records_of(*records, **options), self.leader_epoch)
        self.model.note_epoch(self.leader_epoch, self.model.end)
        options |= {"producer_epoch": -1 % 2**15, "base_sequence": 1}
        with pytest.raises(OutOfOrderSequenceError):
            self.log.append_as_leader(records_of(*records, **options), self.leader_epoch)

    @rule(producer_id=PRODUCERS)
    def answer_a_repeated_batch_with_the_first(self, producer_id: int) -> None:
        batches = [b for b in self.model.batches if b.producer_id == producer_id and not b.marker]
        known = self.log.producer_state.last_entry(producer_id)
        if not batches or known is None or known.is_empty:
            return
        batch = batches[-1]
        sent = records_of(
            *(SimpleRecord(*record[2:], record[1]) for record in batch.records),
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=batch.base_sequence,
            is_transactional=batch.is_transactional,
        )
        info = self.log.append_as_leader(sent, self.leader_epoch)
        assert (info.first_offset, info.last_offset) == (batch.base, batch.last)
        self.model.note_epoch(self.leader_epoch, self.model.end)

    @precondition(lambda self: self.model.end > 0)
    @rule(data=st.data())
    def refuse_what_lies_below_the_end(self, data: st.DataObject) -> None:
        base = data.draw(st.integers(0, self.model.end - 1))
        with pytest.raises(UnexpectedAppendOffsetError):
            self.log.append_as_follower(
                records_of(*self._records(2), base_offset=base), self.leader_epoch
            )

    # Leading

    @rule(by=st.integers(1, 3))
    def lead_anew(self, by: int) -> None:
        self.leader_epoch += by

    @rule(data=st.data())
    def replicate(self, data: st.DataObject) -> None:
        """To where a batch begins, as a follower's fetch says; no offset between is ever asked for."""
        bases = [batch.base for batch in self.model.batches]
        to = data.draw(st.sampled_from([*bases, self.model.end]))
        if to > self.model.high_watermark:
            self.log.maybe_increment_high_watermark(self.log.watermarks.offset_metadata(to))
            self.model.high_watermark = to

    @rule()
    def replicate_all(self) -> None:
        assert self.log.update_high_watermark(self.model.end) == self.model.end
        self.model.high_watermark = self.model.end

    # Shortening

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        target = data.draw(st.integers(max(self.model.start, self.model.end - 20), self.model.end))
        assert self.log.truncate_to(target) == (target < self.model.end)
        self.model.truncate(target)
        self.replicate_all()

    @rule(further=st.integers(0, 10))
    def truncate_fully(self, further: int) -> None:
        at = self.model.end + further
        self.log.truncate_fully_and_start_at(at)
        self.model.start_over(at)
        assert not self.log.producer_state.active_producers
        assert self.log.producer_state.latest_snapshot_offset is None

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        bound = self.model.last_stable_offset
        if bound > self.model.start:
            to = data.draw(st.integers(self.model.start + 1, bound))
            assert self.log.maybe_increment_log_start_offset(to, "deleted")
            self.model.move_start(to)
        with pytest.raises(OffsetOutOfRangeError):
            self.log.maybe_increment_log_start_offset(self.model.high_watermark + 1, "deleted")
        self.log.delete_old_segments()
        segments = self.log.segments
        assert len(segments) == 1 or segments[1].base_offset > self.model.start

    @precondition(lambda self: not self.model.fates().open)
    @rule(keep=st.integers(0, 3000))
    def retain_by_size(self, keep: int) -> None:
        self.replicate_all()
        self.log.update_config(replace(self.config, retention_size=keep))
        deleted = self.log.delete_old_segments()
        self.log.update_config(self.config)
        assert self.log.size < keep + self.log.segments[0].size or self.log.size == 0
        if deleted and self.log.log_start_offset != self.model.start:
            assert self.log.log_start_offset == self.log.segments[0].base_offset
            assert self.model.start < self.log.log_start_offset <= self.model.end
            self.model.move_start(self.log.log_start_offset)

    @rule()
    def let_files_go(self) -> None:
        self.bench.clock.sleep(1001)
        assert self.bench.names(".deleted") == []

    # Reopening

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.model.end

    @rule()
    def close_and_reopen(self) -> None:
        self.replicate_all()
        self.log.flush(force_active_segment=True)
        self.log.close()
        self._reopen(self.log.recovery_point, clean=True)

    @rule(data=st.data(), torn=st.integers(0, 80))
    def crash_and_reopen(self, data: st.DataObject, torn: int) -> None:
        """All that was written is there, and perhaps the beginning of a batch more."""
        self.replicate_all()
        recovery_point = data.draw(st.integers(0, self.log.recovery_point))
        self.log.close_handlers()
        begun = bytes(records_of(*self._records(9), base_offset=self.model.end).buffer)
        with open(self.log.active_segment.log.path, "ab") as file:
            file.write(begun[:torn])
        self._reopen(recovery_point, clean=False)

    def _reopen(self, recovery_point: int, *, clean: bool) -> None:
        self.log = self.bench.open(
            self.config,
            disk=DISK.without_syncs(),
            log_start_offset=self.model.start,
            recovery_point=recovery_point,
            last_shutdown_clean=clean,
        )
        self.model.reload(self.log.log_end_offset)
        self.log.update_high_watermark(self.model.end)

    # What must be so

    @invariant()
    def bounds_are_those_of_the_model(self) -> None:
        assert self.log.log_start_offset == self.model.start
        assert self.log.log_end_offset == self.model.end
        assert self.log.high_watermark == self.model.high_watermark
        assert self.log.last_stable_offset == self.model.last_stable_offset
        epochs = self.log.leader_epoch_cache.epoch_entries
        assert self.model.epochs_with_records(epochs) == self.model.epochs_with_records()

    @invariant()
    def producers_are_those_of_the_model(self) -> None:
        """Those without records above the log start may be forgotten, and need not."""
        fates, known = self.model.fates(), self.log.producer_state.active_producers
        for producer_id, last_offset in fates.last_offsets.items():
            if last_offset >= self.model.start:
                assert known[producer_id].current_txn_first_offset == fates.open.get(producer_id)
            if fates.last_data_offsets.get(producer_id, -1) >= self.model.start:
                assert known[producer_id].last_sequence == fates.last_sequences[producer_id]

    @invariant()
    def readers_see_what_the_model_has(self) -> None:
        read = [record for batch, _ in self._read(FetchIsolation.LOG_END) for record in seen(batch)]
        assert self._from_start(read) == self.model.visible

    @invariant()
    def readers_of_committed_records_see_what_the_model_has(self) -> None:
        assert self._from_start(self._committed()) == self.model.committed

    @rule(data=st.data())
    def look_a_time_up(self, data: st.DataObject) -> None:
        """A segment without visible records ends Kafka's search if its file is young: no answer then."""
        *others, active = self.log.segments
        following = [segment.base_offset for segment in (*others[1:], active)]
        if any(not s.size for s in others) or (others and following[0] <= self.model.start):
            return
        now = self.bench.now
        timestamp = data.draw(st.integers(now - 300, now + 1))
        expected = self.model.first_at(timestamp)
        found = self.log.fetch_offset_by_timestamp(timestamp)
        assert (found and found[:2]) == (expected and (expected[1], expected[0]))

    def _from_start(self, records: list[Seen]) -> list[Seen]:
        return [record for record in records if record[0] >= self.model.start]

    def _read(self, isolation: FetchIsolation) -> Iterator[tuple[RecordBatch, FetchDataInfo]]:
        offset = self.log.log_start_offset
        while True:
            fetched = self.log.read(offset, 400, isolation)
            batches = list(fetched.records.batches())
            if not batches:
                return
            for batch in batches:
                yield batch, fetched
            offset = batches[-1].next_offset

    def _committed(self) -> list[Seen]:
        """As a consumer does: what the index says begins, and what a marker ends."""
        found = []
        aborted: set[tuple[int, int]] = set()
        for batch, fetched in self._read(FetchIsolation.TXN_COMMITTED):
            for txn in fetched.aborted_transactions or ():
                if txn.first_offset <= batch.last_offset and txn.last_offset >= batch.base_offset:
                    aborted.add((txn.producer_id, txn.last_offset))
            if batch.is_control:
                continue
            hidden = any(
                producer_id == batch.producer_id and batch.last_offset < last
                for producer_id, last in aborted
            )
            if not (batch.is_transactional and hidden):
                found += seen(batch)
        return found


def seen(batch: RecordBatch) -> list[Seen]:
    return [
        (record.offset, record.timestamp, record.key, record.value) for record in batch.records()
    ]


class TestLogMachine(LogMachine.TestCase):
    settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
