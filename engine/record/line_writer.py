"""Record lines of rows of a batch table, in Python: what the compiled kernel does, and its reference."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.record.attributes import (
    CONTROL_MASK,
    TRANSACTIONAL_MASK,
    TimestampType,
    timestamp_type_of,
)
from engine.record.columns import read_headers
from engine.record.decoding import Decoder, Row
from engine.record.lines_result import LinesResult
from engine.record.record import Record
from engine.record.record_line import Fate, LineOptions, record_line

Fates: TypeAlias = "npt.NDArray[np.uint8] | None"


class LineWriter:
    """Record lines of rows, one row after the other."""

    def __init__(self, decoder: Decoder, options: LineOptions, enough: int) -> None:
        self.decoder = decoder
        self.options = options
        self.enough = enough
        self.parts: list[bytes] = []
        self.size = 0
        self.next_record = 0

    def lines(
        self, first_row: int, last_row: int, fates: Fates, *, measure: bool, first_record: int
    ) -> LinesResult:
        """The lines of rows [first_row, last_row), up to the first row with a problem; see `kernel.lines`."""
        problem, row, first_record = None, first_row, max(first_record, 0)
        while row < last_row and problem is None:
            if not self.write(row, 0 if fates is None else int(fates[row]), first_record):
                break
            if self.decoder.problems:
                problem = self.decoder.problems[0]
            row, first_record = row + 1, 0
        text = b"".join(self.parts)
        return LinesResult(
            *(None if measure else text, len(text), row - first_row),
            *(problem, len(self.parts), self.next_record),
        )

    def write(self, row: int, fate: int, first_record: int) -> bool:
        """Append the lines of a row; False when the text was full before its end."""
        batch = self.decoder.table[row]
        if self._is_left_out(batch, fate):
            return True
        if self.size >= self.enough:
            self.next_record = first_record
            return False
        self.decoder.records.clear()
        self.decoder.arena.clear()
        self.decoder.decode(row)
        arena = self.decoder.arena_of(row)
        for index in range(first_record, len(self.decoder.records)):
            record = _record_of(batch, self.decoder.records[index], arena, index)
            if not self.options.from_offset <= record.offset < self.options.to_offset:
                continue
            if self.size >= self.enough:
                self.next_record = index
                return False
            self._append(batch, record, fate)
        return True

    def _is_left_out(self, batch: np.void, fate: int) -> bool:
        """Whether no line of a row is wanted; headers that contradict themselves are looked at."""
        if self.options.committed and (_is_control(batch) or fate in (Fate.ABORTED, Fate.OPEN)):
            return True
        base, last = int(batch["base_offset"]), int(batch["last_offset"])
        if last < base:
            return False
        beyond = int(batch["magic"]) == 2 and base >= self.options.to_offset
        return beyond or last < self.options.from_offset

    def _append(self, batch: np.void, record: Record, fate: int) -> None:
        bits = int(batch["attributes"]) if int(batch["magic"]) == 2 else 0
        line = record_line(
            record,
            self.options,
            producer_id=int(batch["producer_id"]),
            producer_epoch=int(batch["producer_epoch"]),
            is_transactional=bool(bits & TRANSACTIONAL_MASK),
            is_control=bool(bits & CONTROL_MASK),
            fate=fate,
        )
        self.parts.append(line)
        self.size += len(line)


def _is_control(batch: np.void) -> bool:
    return int(batch["magic"]) == 2 and bool(int(batch["attributes"]) & CONTROL_MASK)


def _record_of(batch: np.void, fields: Row, arena: memoryview, index: int) -> Record:
    offset, timestamp, key_at, value_at, headers_at, key_size, value_size, _, count, sequence, _ = (
        fields
    )
    if int(batch["magic"]) == 0:
        kind = TimestampType.NO_TIMESTAMP_TYPE
    else:
        kind = timestamp_type_of(int(batch["attributes"]))
    return Record(
        offset=offset,
        timestamp=timestamp,
        timestamp_type=kind,
        key=None if key_size < 0 else bytes(arena[key_at : key_at + key_size]),
        value=None if value_size < 0 else bytes(arena[value_at : value_at + value_size]),
        headers=read_headers(arena, headers_at, count),
        sequence=sequence,
        leader_epoch=int(batch["leader_epoch"]),
        index=index,
    )
