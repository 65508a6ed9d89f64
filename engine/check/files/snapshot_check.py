"""Compare producer snapshots with the batches below their offset.

A producer may be missing from a snapshot because it expired; and a snapshot may have state that compaction and retention
removed from the log. So the two are compared only where the log cannot have lost anything.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.batches.markers import MarkerReader, is_marker, steps
from engine.check.partition_under_check import PartitionUnderCheck
from engine.check.rules.finding import Finding, failed_read
from engine.check.rules.finding_limit import Make, made_up_to_limit
from engine.errors import DamagedFileError, SourceRefusedError
from engine.files.file_names import producer_snapshot_name
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.state.producer_snapshot import ENTRY, HEADER, ProducerSnapshot
from engine.state.producer_state_entry import ProducerStateEntry
from engine.units import (
    MAX_INT32,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Offset,
    Timestamp,
)

Table: TypeAlias = npt.NDArray[Any]

_OFFSETS_KNOWN = 1000
MOST_PRODUCERS = 200_000
"""Producers that are tracked at once: 100 MB."""


class _Producer:
    """State of a producer as in ProducerStateEntry, with its newest batch only.

    Attributes:
        newest: last offset of its newest batch or marker.
        is_shrunk: whether its newest batch lost records, and perhaps its largest timestamp with them.
    """

    __slots__ = (
        "coordinator_epoch",
        "current_txn_first_offset",
        "is_shrunk",
        "last_data_offset",
        "last_offset_delta",
        "last_sequence",
        "last_timestamp",
        "newest",
        "producer_epoch",
    )

    def __init__(self) -> None:
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.current_txn_first_offset: Offset | None = None
        self.newest: Offset = -1
        self.is_shrunk = False
        self._forget_batch()

    def _forget_batch(self) -> None:
        self.last_sequence = NO_SEQUENCE
        self.last_data_offset: Offset = -1
        self.last_offset_delta = 0

    def _enter_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self._forget_batch()
            self.producer_epoch = epoch

    def add_batch(self, row: np.void) -> None:
        """Add a batch of records."""
        base, last = int(row["base_offset"]), int(row["last_offset"])
        self._enter_epoch(int(row["producer_epoch"]))
        self.last_sequence = (int(row["base_sequence"]) + last - base) & MAX_INT32
        self.last_data_offset = last
        self.last_offset_delta = last - base
        self.last_timestamp = int(row["max_timestamp"])
        self.is_shrunk = bool(row["record_count"] <= last - base)
        is_transactional = row["attributes"] & TRANSACTIONAL_MASK and row["record_count"]
        if is_transactional and self.current_txn_first_offset is None:
            self.current_txn_first_offset = base
        self.newest = last

    def end_transaction(self, row: np.void, coordinator_epoch: int, timestamp: Timestamp) -> None:
        """Add an end marker."""
        self._enter_epoch(int(row["producer_epoch"]))
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp
        self.newest = int(row["last_offset"])


def check_producer_snapshots(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about a partition's producer snapshots."""
    known: list[Offset] = []
    for offset in partition.view.listing.producer_snapshots:
        name = producer_snapshot_name(offset)
        data = None
        try:
            data = partition.read(name)
            if data is not None:
                ProducerSnapshot.iterate(data, name)
                known.append(offset)
        except DamagedFileError as error:
            yield partition.found(
                "snapshot-unreadable",
                name,
                f"{error.reason}: a broker would use an older one",
                position=error.position or 0,
                length=len(data or b"") - (error.position or 0),
                expected=error.expected,
                found=error.found,
            )
        except OSError as error:
            if not isinstance(error, SourceRefusedError):
                yield partition.found("file-unreadable", name, **failed_read(error))
    yield from _strays(partition)
    replay = _Replay(partition)
    for offset, now in replay.states(known):
        name = producer_snapshot_name(offset)
        if now:
            data = partition.read(name)
            if data is not None:
                entries = ProducerSnapshot.iterate(data, name)
                yield from _Comparison(partition, replay, offset).run(entries)
        else:
            yield partition.found("snapshot-not-compared", name, "the log has too many producers")
    yield from _missing(partition, replay)


def _strays(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Report snapshots that a broker deletes (LogLoader): those without a segment, except one above all segments."""
    if partition.is_live or not partition.is_served or partition.view.log.only is not None:
        return
    bases = partition.view.base_offsets
    snapshots = partition.view.listing.producer_snapshots
    last_base = bases[-1] if bases else -1
    strays = [
        offset
        for offset in snapshots
        if offset > partition.log_end_offset
        or (offset not in bases and (offset != snapshots[-1] or offset < last_base))
    ]
    if strays:
        others = f", and {len(strays) - 1} more" if len(strays) > 1 else ""
        yield partition.found(
            "snapshot-stray",
            producer_snapshot_name(strays[0]),
            f"no segment begins and the log does not end at offset {strays[0]}{others}",
            offsets=strays[:1000],
        )


def _missing(partition: PartitionUnderCheck, replay: _Replay) -> Iterator[Finding]:
    """Report a log without snapshots: after a clean shutdown a broker assumes that it has no producers."""
    if partition.view.listing.producer_snapshots or not replay.producers or not partition.segments:
        return
    if partition.is_live or not partition.is_served or not partition.has_clean_shutdown:
        return
    yield partition.found(
        "snapshot-missing",
        "",
        f"{len(replay.producers)} producers wrote to the log, but there is no snapshot",
        producers=len(replay.producers),
    )


class _Replay:
    """State of the producers, from the log's batches up to an offset.

    Attributes:
        producers: by id.
        gap_end: one past the largest missing offset so far, or the first known offset: a broker that recovers a log
            reads it from the log start.
    """

    def __init__(self, partition: PartitionUnderCheck) -> None:
        self.partition = partition
        self.producers: dict[int, _Producer] = {}
        first = partition.segments[0].base_offset if partition.segments else 0
        self.gap_end: Offset = max(first, partition.log_start_offset)
        self._next: Offset = first
        self._is_full = False

    def states(self, offsets: list[Offset]) -> Iterator[tuple[Offset, bool]]:
        """Read the log up to each offset in turn; yield the offset, and False if there are too many producers."""
        waiting = list(offsets)
        for segment in self.partition.segments:
            reader = MarkerReader(segment)
            for rows in segment.chunks():
                first = 0
                while waiting and waiting[0] <= rows["base_offset"][-1]:
                    stop = bisect_left(rows["base_offset"], waiting[0], first)
                    self._take(rows[first:stop], reader)
                    first = stop
                    yield self._reached(waiting.pop(0))
                self._take(rows[first:], reader)
        while waiting:
            yield self._reached(waiting.pop(0))

    def _reached(self, offset: Offset) -> tuple[Offset, bool]:
        if offset > self._next:
            self.gap_end = offset
        return offset, not self._is_full

    def _take(self, rows: Table, reader: MarkerReader) -> None:
        if not len(rows) or self._is_full:
            return
        self._note_gaps(rows)
        numbers = steps(rows, transactional=False)
        ends = is_marker(rows) if numbers else ()
        for number in numbers:
            row = rows[number]
            producer = int(row["producer_id"])
            entry = self.producers.get(producer)
            if entry is None:
                entry = self.producers[producer] = _Producer()
            if not ends[number]:
                entry.add_batch(row)
                continue
            marker = reader.read(row)
            if marker is not None:
                entry.end_transaction(row, marker.coordinator_epoch, marker.timestamp)
        if len(self.producers) > MOST_PRODUCERS:
            self._is_full = True
            self.producers.clear()

    def _note_gaps(self, rows: Table) -> None:
        before = np.concatenate(([self._next], rows["last_offset"][:-1] + 1))
        gaps = (rows["base_offset"] > before).nonzero()[0]
        if len(gaps):
            self.gap_end = max(self.gap_end, int(rows["base_offset"][gaps[-1]]))
        self._next = max(self._next, int(rows["last_offset"].max()) + 1)


class _Comparison:
    """Compares one snapshot with the state of the log at its offset."""

    def __init__(self, partition: PartitionUnderCheck, replay: _Replay, offset: Offset) -> None:
        self.partition = partition
        self.replay = replay
        self.offset = offset
        self.name = producer_snapshot_name(offset)
        # thousands of wrong entries name the same few offsets
        self._is_there = lru_cache(_OFFSETS_KNOWN)(self._look_for)

    def run(self, entries: Iterator[ProducerStateEntry]) -> Iterator[Finding]:
        """Yield findings about the snapshot's entries, of which there may be a million."""
        seen: set[int] = set()
        yield from made_up_to_limit(self._entries(entries, seen))
        yield from self._unknown(seen)

    def _entries(
        self, entries: Iterator[ProducerStateEntry], seen: set[int]
    ) -> Iterator[tuple[str, Make]]:
        for slot, entry in enumerate(entries):
            breaches: list[tuple[str, tuple[str, object]]] = []
            if entry.producer_id in seen:
                breaches.append(("snapshot-producer", ("the producer has two entries", None)))
            seen.add(entry.producer_id)
            if transaction := self._transaction(entry):
                breaches.append(("snapshot-transactions", transaction))
            if batch := self._batch(entry):
                breaches.append(("snapshot-producer", batch))
            for rule, breach in breaches:
                yield rule, partial(self._found, rule, slot, entry, *breach)

    def _unknown(self, seen: set[int]) -> Iterator[Finding]:
        """Yield open transactions of producers that are missing from the snapshot."""
        for producer, known in self.replay.producers.items():
            first = known.current_txn_first_offset
            is_open = first is not None and first >= self.replay.gap_end
            if is_open and producer not in seen and self._is_certain(producer):
                yield self.partition.found(
                    "snapshot-transactions",
                    self.name,
                    f"producer {producer} has a transaction open from offset {first}, which is missing from the"
                    " snapshot",
                    first_offset=first,
                    next_offset=self.offset,
                    producer=producer,
                )

    def _is_certain(self, producer: int) -> bool:
        """Return whether the log cannot have lost anything of the producer since its newest batch."""
        known = self.replay.producers.get(producer)
        return known is not None and known.newest >= self.replay.gap_end and known.newest >= 0

    def _transaction(self, entry: ProducerStateEntry) -> tuple[str, object] | None:
        """Return a contradiction to the open transaction of an entry, and the log's value."""
        first = entry.current_txn_first_offset
        known = self.replay.producers.get(entry.producer_id)
        actual = None if known is None else known.current_txn_first_offset
        if first == actual:
            return None
        if first is not None and first >= self.offset:
            return f"its transaction begins at {first}, not below the snapshot's offset", actual
        if known is not None and self._is_certain(entry.producer_id):
            if actual is None:
                if known.is_shrunk and known.newest == known.last_data_offset:
                    # Compaction removed data of a transaction that may have been open.
                    return None
                return f"its transaction from offset {first} has ended", None
            if first is None and actual >= self.replay.gap_end:
                return f"its transaction from offset {actual} has not ended", actual
        if first is None or self._may_begin(first, entry.producer_id):
            return None
        begins = "none is open" if actual is None else f"one begins at {actual}"
        return f"it has no transaction from offset {first}; {begins}", actual

    def _may_begin(self, offset: Offset, producer: int) -> bool:
        """Return whether a batch of a producer begins at an offset, or the offset no longer exists."""
        segment = self.partition.view.segment_for(offset)
        try:
            run = None if segment is None else segment.batch(offset)
        except (DamagedFileError, OSError):
            return True
        return run is None or (
            run.base_offset == offset and int(run.table["producer_id"][0]) == producer
        )

    def _batch(self, entry: ProducerStateEntry) -> tuple[str, object] | None:
        """Return a contradiction to the last batch of an entry, and the log's value."""
        known = self.replay.producers.get(entry.producer_id)
        last = entry.last_data_offset
        if last >= self.offset:
            return f"its last batch ends at {last}, not below the snapshot's offset", None
        if known is None:
            if last >= 0 and self._is_there(last):
                return f"the batch with offset {last} has another producer id", None
            return None
        if last != known.last_data_offset:
            return self._other_batch(last, known)
        facts = {} if last < 0 else self._batch_facts(entry, known)
        if self._is_certain(entry.producer_id):
            facts |= self._newest_facts(entry, known)
        for what, (stated, actual) in facts.items():
            if stated != actual:
                return f"the {what} is {actual}, not {stated}", actual
        return None

    def _other_batch(self, last: Offset, known: _Producer) -> tuple[str, object] | None:
        """Compare if the last batches differ: compaction may have removed the newer one."""
        actual = known.last_data_offset
        if last > actual:
            return (
                (f"it has no batch that ends at {last}", actual) if self._is_there(last) else None
            )
        # For an expired producer, a marker only shows that the producer exists again.
        if last < 0 and known.newest != actual:
            return None
        return f"its last batch ends at {actual}, not at {last}", actual

    def _batch_facts(
        self, entry: ProducerStateEntry, known: _Producer
    ) -> dict[str, tuple[int, int]]:
        return {
            "last sequence": (entry.last_sequence, known.last_sequence),
            "offset delta": (entry.last_offset_delta, known.last_offset_delta),
        }

    def _newest_facts(
        self, entry: ProducerStateEntry, known: _Producer
    ) -> dict[str, tuple[int, int]]:
        """Return the facts of the newest batch or marker."""
        facts = {"producer epoch": (entry.producer_epoch, known.producer_epoch)}
        if not known.is_shrunk and known.last_timestamp != NO_TIMESTAMP:
            facts["timestamp"] = (entry.last_timestamp, known.last_timestamp)
        if min(entry.coordinator_epoch, known.coordinator_epoch) >= 0:
            facts["coordinator epoch"] = (entry.coordinator_epoch, known.coordinator_epoch)
        return facts

    def _look_for(self, offset: Offset) -> bool:
        """Return whether a good batch of the log has an offset."""
        segment = self.partition.view.segment_for(offset)
        if segment is None:
            return False
        try:
            return segment.batch(offset) is not None
        except (DamagedFileError, OSError):
            return False

    def _found(
        self,
        rule: str,
        slot: int,
        entry: ProducerStateEntry,
        reason: str,
        expected: object = None,
    ) -> Finding:
        return self.partition.found(
            rule,
            self.name,
            f"producer {entry.producer_id}: {reason}",
            position=HEADER.size + slot * ENTRY.size,
            length=ENTRY.size,
            expected=expected,
            producer=entry.producer_id,
        )
