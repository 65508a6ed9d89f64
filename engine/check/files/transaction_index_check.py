"""Compare the transaction indexes of a partition with its ABORT markers.

The two must agree, with these exceptions: compaction removes the entries of transactions without remaining data; a
transaction's first offset and the last stable offset may be offsets that no longer exist; a follower that appends many
batches at once writes a later last stable offset than its leader; and a broker that recovers a log reads it from the log
start, so it only has the part of a transaction from there on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from engine.check.batches.markers import MarkerReader, is_marker, steps
from engine.check.files.index_entries import Table, read_entries, size_findings, unreadable
from engine.check.partition_under_check import PartitionUnderCheck, SegmentUnderCheck
from engine.check.rules.finding import Finding
from engine.check.rules.finding_limit import Make, made_up_to_limit
from engine.check.rules.rules import Severity
from engine.errors import DamagedFileError
from engine.files.file_names import transaction_index_name
from engine.index.transaction_index import CURRENT_VERSION, ENTRY, AbortedTxn
from engine.log.segment.damage import DamageKind
from engine.log.view.transactions import may_have_taken_a_marker
from engine.record.attributes import TRANSACTIONAL_MASK
from engine.record.control_records import ControlRecordType
from engine.units import MAX_INT64, Offset, Position

_AT_A_TIME = 65_536
_MOST_NAMED = 100
"""Missing entries of one segment that are named individually."""


class _Abort(NamedTuple):
    """An ABORT marker.

    Attributes:
        producer_id, position: its producer, and its position in the segment.
        first_offset: first offset of the transaction's data; None if unknown.
        first_served: first offset of those of its batches that reach the log start; None without one.
        last_stable_offset: last stable offset, from all transactions that no marker has ended.
        after: last marker of the producer before, -1 if unknown.
        is_certain: whether no offsets are missing between the served data and the marker. If some are, compaction may
            have removed the end of one transaction and the beginning of another.
        known_stable: last stable offset, only from the served data of certain transactions.
    """

    producer_id: int
    first_offset: Offset | None
    first_served: Offset | None
    position: Position
    last_stable_offset: Offset
    after: Offset
    is_certain: bool
    known_stable: Offset


def check_transaction_index(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """Yield findings about the transaction indexes of a partition's segments."""
    state = _Transactions(partition)
    for segment in partition.segments:
        aborts = state.read(segment)
        yield from _SegmentCheck(segment, aborts, state.certain_from).run()


class _Transactions:
    """Open transactions, segment after segment.

    Attributes:
        certain_from: all transactions that began at or above this offset are known completely.
    """

    def __init__(self, partition: PartitionUnderCheck) -> None:
        first = partition.segments[0].base_offset if partition.segments else 0
        self.certain_from: Offset = first
        self._next: Offset = first
        self._gap_end: Offset = first
        self._log_start = partition.log_start_offset
        self._open: dict[int, Offset] = {}
        self._served: dict[int, Offset] = {}
        self._ended: dict[int, Offset] = {}

    def read(self, segment: SegmentUnderCheck) -> dict[Offset, _Abort]:
        """Return the ABORT markers of a segment, by offset."""
        aborts: dict[Offset, _Abort] = {}
        losses = [each.position for each in segment.damages if may_have_taken_a_marker(each)]
        reader = MarkerReader(segment)
        for rows in segment.chunks():
            ends = is_marker(rows)
            positions = rows["position"]
            gap_ends = self._gap_ends(rows)
            for row in steps(rows, transactional=True):
                while losses and losses[0] < positions[row]:
                    losses.pop(0)
                    self._lose(int(rows["base_offset"][row]))
                if ends[row]:
                    self._end(rows[row], reader, aborts, int(gap_ends[row]))
                else:
                    self._add(rows[row])
        if losses:
            self._lose(segment.next_offset)
        return aborts

    def _gap_ends(self, rows: Table) -> Table:
        """Return one past the last missing offset before each row."""
        before = np.concatenate(([self._next], rows["last_offset"][:-1] + 1))
        ends = np.where(rows["base_offset"] > before, rows["base_offset"], -1)
        found = np.maximum.accumulate(np.maximum(ends, self._gap_end))
        self._gap_end = int(found[-1])
        self._next = int(rows["last_offset"][-1]) + 1
        return found

    def _lose(self, offset: Offset) -> None:
        self.certain_from = max(self.certain_from, offset)
        self._open.clear()
        self._served.clear()
        self._ended.clear()

    def _add(self, row: np.void) -> None:
        producer, base = int(row["producer_id"]), int(row["base_offset"])
        self._open.setdefault(producer, base)
        if row["last_offset"] >= self._log_start:
            self._served.setdefault(producer, base)

    def _end(
        self, row: np.void, reader: MarkerReader, aborts: dict[Offset, _Abort], gap_end: Offset
    ) -> None:
        marker = reader.read(row)
        if marker is None:
            return
        producer, offset = int(row["producer_id"]), int(row["base_offset"])
        first = self._open.pop(producer, None)
        served = self._served.pop(producer, None)
        if marker.type is ControlRecordType.ABORT:
            stable = min(self._open.values(), default=offset + 1)
            after = self._ended.get(producer, -1)
            known = (each for each in self._served.values() if each >= gap_end)
            aborts[offset] = _Abort(
                producer,
                first,
                served,
                int(row["position"]),
                stable,
                after,
                served is not None and served >= gap_end,
                min(known, default=offset + 1),
            )
        self._ended[producer] = offset


def _by_slot(table: Table) -> Iterator[tuple[int, AbortedTxn]]:
    """Yield the entries of a table in steps: as objects they take ten times the memory."""
    for start in range(0, len(table), _AT_A_TIME):
        for slot, values in enumerate(table[start : start + _AT_A_TIME].tolist(), start):
            yield slot, AbortedTxn(*values)


class _SegmentCheck:
    def __init__(
        self, segment: SegmentUnderCheck, aborts: dict[Offset, _Abort], certain_from: Offset
    ) -> None:
        self.segment = segment
        self.partition = segment.partition
        self.name = transaction_index_name(segment.base_offset)
        self.aborts = aborts
        self.certain_from = certain_from
        self.is_growing = segment.is_active and self.partition.is_live

    def run(self) -> Iterator[Finding]:
        try:
            entries = read_entries(self.segment, self.name, ENTRY.dtype, is_padded=False)
        except OSError as error:
            yield from unreadable(self.segment, self.name, error)
            return
        if entries is None and not self.aborts:
            return
        table = np.zeros(0, ENTRY.dtype) if entries is None else entries.table
        if entries is not None:
            yield from size_findings(self.segment, self.name, entries, ENTRY.size)
        yield from made_up_to_limit(self._entries(table))
        if entries is None or not entries.unread:
            yield from self._missing(table, is_there=entries is not None)

    def _entries(self, table: Table) -> Iterator[tuple[str, Make]]:
        before = -1
        for slot, entry in _by_slot(table):
            if entry.last_offset <= before:
                rule, reason = "txn-index-entry", f"its last offset is not above {before}"
                yield rule, partial(self._found, rule, slot, entry, reason)
            before = max(before, entry.last_offset)
            reason, expected = self._against(entry)
            if reason:
                rule = "txn-index-extra" if expected is None else "txn-index-entry"
                yield rule, partial(self._found, rule, slot, entry, reason, expected)

    def _against(self, entry: AbortedTxn) -> tuple[str, object]:
        """Return a contradiction to an entry, and the log's value; an empty text without one."""
        if entry.version != CURRENT_VERSION:
            return f"version {entry.version} is unknown", CURRENT_VERSION
        abort = self.aborts.get(entry.last_offset)
        if abort is None:
            if self._may_be_lost(entry.last_offset):
                return "", None
            return f"no transaction was aborted at offset {entry.last_offset}", None
        if entry.producer_id != abort.producer_id:
            return f"the marker has producer id {abort.producer_id}", abort.producer_id
        if not self._first_fits(entry, abort):
            first = abort.first_offset
            return f"the transaction begins at {'no' if first is None else first}", first or -1
        if not self._stable_fits(entry, abort):
            stable = abort.last_stable_offset
            return f"the last stable offset was {stable}, not {entry.last_stable_offset}", stable
        return "", None

    def _first_fits(self, entry: AbortedTxn, abort: _Abort) -> bool:
        first = entry.first_offset
        if first == abort.first_offset or abort.after < first < self.certain_from:
            return True
        limit = entry.last_offset if abort.first_offset is None else abort.first_offset
        if abort.after < first < limit and self._is_gone(first):
            return True
        # A recovery reads from the log start on, which was at or below the present one.
        highest = abort.first_served
        if not abort.is_certain or highest is None:
            # Compaction may have emptied the first batch, or removed the end of an earlier transaction.
            highest = entry.last_offset
        return abort.after < first <= highest and self._begins_transaction(first, abort.producer_id)

    def _stable_fits(self, entry: AbortedTxn, abort: _Abort) -> bool:
        stable = entry.last_stable_offset
        if stable == abort.last_stable_offset or 0 <= stable < self.certain_from:
            return True
        if stable < abort.last_stable_offset:
            return stable >= 0 and self._is_gone(stable)
        if abort.known_stable <= entry.last_offset and stable > abort.known_stable:
            return False
        if stable == abort.known_stable:
            return True
        if stable >= MAX_INT64:
            return False
        return stable < self.partition.log_end_offset and (
            self._begins_transaction(stable, None) or self._is_gone(stable)
        )

    def _may_be_lost(self, offset: Offset) -> bool:
        """Return whether damage may have hidden the marker, or it is newer than the bytes read."""
        if self.is_growing and offset >= self.segment.next_offset:
            return True
        if not 0 <= offset < MAX_INT64 or not self.segment.damages:
            return False
        return any(
            may_have_taken_a_marker(each) or each.kind is DamageKind.TORN_TAIL
            for each in self.segment.damages
        ) and self._is_gone(offset)

    def _is_gone(self, offset: Offset) -> bool:
        """Return whether no batch of the log has an offset, or one emptied by compaction."""
        segment = self.partition.view.segment_for(offset)
        try:
            run = None if segment is None else segment.batch(offset)
        except (DamagedFileError, OSError):
            return True
        return run is None or not run.table["record_count"][0]

    def _begins_transaction(self, offset: Offset, producer: int | None) -> bool:
        """Return whether a transactional batch of a producer (None: of any) begins at an offset."""
        segment = self.partition.view.segment_for(offset)
        run = None if segment is None else segment.batch(offset)
        if run is None or run.base_offset != offset:
            return False
        row = run.table[0]
        return bool(row["attributes"] & TRANSACTIONAL_MASK) and producer in (
            None,
            int(row["producer_id"]),
        )

    def _missing(self, table: Table, *, is_there: bool) -> Iterator[Finding]:
        known = set(table["last_offset"].tolist())
        missing = [
            (offset, abort)
            for offset, abort in self.aborts.items()
            if abort.first_served is not None  # no consumer reads below the log start
            and offset not in known
        ]
        uncertain = [each for each in missing if not each[1].is_certain]
        missing = [each for each in missing if each[1].is_certain]
        if uncertain:
            offset, abort = uncertain[0]
            yield self._missing_from(
                f"{len(uncertain)} transactions may be missing; compaction makes this uncertain",
                abort.first_served or 0,
                offset + 1,
                severity=Severity.NOTE,
                transactions=len(uncertain),
            )
        if not missing:
            return
        what = "" if is_there else "the file is missing; "
        if not is_there or len(missing) > _MOST_NAMED:
            yield self._missing_from(
                f"{what}the segment has ABORT markers of {len(missing)} transactions without an entry",
                min(abort.first_served or 0 for _, abort in missing),
                missing[-1][0] + 1,
                transactions=len(missing),
            )
            return
        for offset, abort in missing:
            first = abort.first_served or 0
            yield self._missing_from(
                f"producer {abort.producer_id} aborted its records from offset {first}, with the"
                f" marker at offset {offset}, position {abort.position} of the segment",
                first,
                offset + 1,
                producer=abort.producer_id,
                markerOffset=offset,
                markerPosition=abort.position,
            )

    def _missing_from(
        self,
        sentence: str,
        first: Offset,
        following: Offset,
        *,
        severity: Severity | None = None,
        **facts: object,
    ) -> Finding:
        return self.partition.found(
            "txn-index-missing",
            self.name,
            sentence,
            first_offset=first,
            next_offset=following,
            severity=severity,
            facts=facts,
        )

    def _found(
        self, rule: str, slot: int, entry: AbortedTxn, reason: str, expected: object = None
    ) -> Finding:
        first, last = entry.first_offset, entry.last_offset
        makes_sense = 0 <= first <= last < MAX_INT64
        return self.partition.found(
            rule,
            self.name,
            f"producer {entry.producer_id}, offsets {first} to {last}, last stable offset"
            f" {entry.last_stable_offset}: {reason}",
            position=slot * ENTRY.size,
            length=ENTRY.size,
            first_offset=first if makes_sense else None,
            next_offset=last + 1 if makes_sense else None,
            expected=expected,
            found=entry._asdict(),
        )
