"""What a read of a log gives back."""

from __future__ import annotations

from typing import NamedTuple

from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import MAX_INT64, LogOffsetMetadata, Position

WHOLE: Position = MAX_INT64
"""As a position to read up to: as far as the segment goes."""
NO_RECORDS = MemoryRecords(b"")


class FetchedRecords(NamedTuple):
    """What a read gives back.

    Attributes:
        start: the offset asked for and where its batch starts.
        records: whole batches and perhaps part of one more, as far as the size went: a part of the file,
            or no bytes at all.
        first_is_incomplete: whether not even the first batch is whole.
    """

    start: LogOffsetMetadata
    records: FileRecords | MemoryRecords
    first_is_incomplete: bool = False
