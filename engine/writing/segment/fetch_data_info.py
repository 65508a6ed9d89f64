"""What a read of a writing log gives."""

from __future__ import annotations

from typing import NamedTuple

from engine.index.transaction_index import AbortedTxn
from engine.record.file_records import FileRecords
from engine.record.memory_records import MemoryRecords
from engine.units import LogOffsetMetadata, Offset

EMPTY_RECORDS = MemoryRecords(b"")


class FetchDataInfo(NamedTuple):
    """Batches as they lie in one segment.

    Attributes:
        fetch_offset_metadata: the first batch's base offset, its segment and its position there.
        records: the bytes, which may end inside a batch.
        first_entry_incomplete: whether not even the first batch fits into the size asked for.
        aborted_transactions: those that touch the records; None when they were not asked for.
    """

    fetch_offset_metadata: LogOffsetMetadata
    records: MemoryRecords | FileRecords = EMPTY_RECORDS
    first_entry_incomplete: bool = False
    aborted_transactions: list[AbortedTxn] | None = None

    @classmethod
    def empty(cls, fetch_offset: Offset) -> FetchDataInfo:
        """Nothing, from an offset whose place is not known."""
        return cls(LogOffsetMetadata(fetch_offset))
