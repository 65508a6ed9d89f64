"""Batches of magic 0 and 1 as batches of magic 2, for clients that read nothing else.

One conversion runs at a time, so that it costs the memory of one batch however many clients ask, and the last results
are kept.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum
from threading import Lock
from typing import NamedTuple, TypeAlias

from engine.budgets import Budgets, MiB
from engine.errors import DamagedFileError
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun
from engine.log.view.log_view import LogView
from engine.record.attributes import TimestampType
from engine.record.encoding.conversion import converted
from engine.record.record import Record
from engine.record.record_batch import RecordBatch, batch_at
from engine.units import MAX_INT32, NO_TIMESTAMP, Position
from kafkafs.serve.records.batch_choice import DamagedOffsets

logger = logging.getLogger(__name__)

PART_BYTES = 1 * MiB
"""Bytes of a file that are converted together, unless the first batch is larger."""
GROUP_BYTES = 64 * 1024
"""Bytes of messages without a codec that become one batch."""
_KEPT_BYTES = 32 * MiB
_APPEND_TIME = TimestampType.LOG_APPEND_TIME

_Key: TypeAlias = tuple[tuple[int, int], int, Position, Position]


class OldFormats(Enum):
    """What clients get of batches of magic 0 and 1."""

    AS_IS = "as-is"
    CONVERT = "convert"
    REFUSE = "refuse"


class Converted(NamedTuple):
    """Batches of magic 2.

    Attributes:
        batches: their bytes, in order.
        failed: the batch behind them, if it cannot be converted; else None.
    """

    batches: tuple[bytes, ...]
    failed: DamagedOffsets | None = None

    def up_to(self, most: int) -> bytes:
        """Return whole batches, together at most as many bytes; at least the first one."""
        chosen: list[bytes] = []
        left = most
        for batch in self.batches:
            left -= len(batch)
            if chosen and left < 0:
                break
            chosen.append(batch)
        return b"".join(chosen)


class Conversions:
    """Converts parts of files; safe from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[_Key, Converted] = OrderedDict()
        self._bytes = 0

    def convert(
        self, view: LogView, segment: LogSegment, start: Position, stop: Position
    ) -> Converted:
        """Return the batches of a part of a segment, up to PART_BYTES of it or its first batch.

        Args:
            start: position of a batch of magic 0 or 1.
            stop: end of the batches of magic 0 or 1, which are proven.

        Raises:
            OSError: the file cannot be read, or is gone.
        """
        key = segment.identity, view.rewrites, start, stop
        with self._lock:
            known = self._kept.get(key)
            if known is None:
                known = _convert(segment, start, stop)
                self._keep(key, known)
            else:
                self._kept.move_to_end(key)
            return known

    def _keep(self, key: _Key, made: Converted) -> None:
        self._kept[key] = made
        self._bytes += sum(map(len, made.batches))
        while self._bytes > _KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= sum(map(len, dropped.batches))


def _convert(segment: LogSegment, start: Position, stop: Position) -> Converted:
    made: list[bytes] = []
    failed: DamagedOffsets | None = None
    next_offset = segment.base_offset
    for group in _groups(segment, start, stop):
        next_offset = group.next_offset
        try:
            if group.failure is not None:
                raise group.failure
            if group.records:
                made.append(bytes(converted(group.first, group.records).build().buffer))
        except (DamagedFileError, ValueError) as error:
            position, reason = group.position, str(error)
            logger.warning(
                "%s, position %d: no batch of magic 2: %s", segment.path, position, reason
            )
            failed = DamagedOffsets(segment, position, next_offset, reason)
            break
    if not made and failed is None:
        failed = DamagedOffsets(segment, start, next_offset, "the batches have no records")
    return Converted(tuple(made), failed)


class _Group:
    """Records of consecutive batches that become one batch: those of one batch with a codec, or of several without.

    Attributes:
        position: position of the first batch.
        first: the first batch.
        records: the records.
        next_offset: offset behind the last batch.
        failure: why the first batch, then the only one, cannot be read.
    """

    def __init__(self, position: Position, batch: RecordBatch, budgets: Budgets) -> None:
        self.position, self.first, self.next_offset = position, batch, batch.next_offset
        self.records: list[Record] = []
        self.failure: DamagedFileError | None = None
        self._size = batch.size
        try:
            self.records = list(batch.records(budgets))
        except DamagedFileError as error:
            self.failure = error

    def takes(self, other: _Group) -> bool:
        """Return whether the records of a following batch can be added. A batch that fails is a group of its own."""
        first, batch = self.first, other.first
        if not self.records or not other.records or first.is_compressed or batch.is_compressed:
            return False
        kind = first.timestamp_type
        before, after = self.records[-1], other.records[0]
        return (
            first.magic == batch.magic
            and kind is batch.timestamp_type
            and (kind is not _APPEND_TIME or first.max_timestamp == batch.max_timestamp)
            and self._size + batch.size <= GROUP_BYTES
            and before.offset < after.offset <= self.records[0].offset + MAX_INT32
            and min(before.timestamp, after.timestamp) >= NO_TIMESTAMP
        )

    def add(self, other: _Group) -> None:
        """Add the records of a following batch."""
        self.records += other.records
        self.next_offset = other.next_offset
        self._size += other.first.size


def _groups(segment: LogSegment, start: Position, stop: Position) -> Iterator[_Group]:
    """Yield the groups of a part of a file, up to PART_BYTES of it."""
    group: _Group | None = None
    for position, batch in _batches(segment, start, stop):
        if group is not None and position - start >= PART_BYTES:
            break
        following = _Group(position, batch, segment.budgets)
        if group is not None and group.takes(following):
            group.add(following)
            continue
        if group is not None:
            yield group
        group = following
    if group is not None:
        yield group


def _batches(
    segment: LogSegment, start: Position, stop: Position
) -> Iterator[tuple[Position, RecordBatch]]:
    for item in segment.scan(start, stop):
        if not isinstance(item, BatchRun) or item.position >= stop:
            return
        for row in range(len(item.headers)):
            position = item.headers[row].position
            batch = batch_at(
                item.buffer,
                position - item.start_position,
                file_position=position,
                path=segment.path,
            )
            if batch is None or position >= stop:
                return
            yield position, batch
        del item  # free it before the next read: a batch may be as large as the budget
