"""A broker's rules for the files of a segment, by its version."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.coding.varint import to_int64
from engine.disk.disk import Disk
from engine.errors import CorruptIndexError
from engine.index.transaction_index import ENTRY
from engine.plan.loading.broker_failure import BrokerFailure, Outcome, stops
from engine.plan.loading.broker_records import find_last_offset, find_offset
from engine.record.frame_walk import walk_frames
from engine.units import MAX_INT64, BatchPosition, Offset, Position
from engine.writing.index.writable_offset_index import WritableOffsetIndex
from engine.writing.index.writable_transaction_index import WritableTransactionIndex
from engine.writing.segment.segment_rules import SegmentRules
from engine.writing.segment.writable_file_records import WritableFileRecords

TRANSACTIONS_LIMIT = 1 << 30
"""Most bytes of a transaction index that are read: a segment has no room for more transaction markers."""
_TRANSACTIONS_AT_ONCE = ENTRY.size << 15
_WARM_ENTRIES = 8192 // 8


def check_transactions(index: WritableTransactionIndex, disk: Disk) -> None:
    """Check a transaction index, if it exists, as a broker does from 4.4 on.

    Raises: as `_check_transactions`.
    """
    _check_transactions(index, disk, _Versions(0, "supported version range is 0 to 0"))


def check_first_bytes(index: WritableTransactionIndex, disk: Disk) -> None:
    """Check a transaction index, if it exists, as a broker before 4.4: it reads one byte of each version.

    Raises: as `_check_transactions`.
    """
    _check_transactions(index, disk, _Versions(8, "current version is 0"))


class _Versions(NamedTuple):
    """Versions that a broker reads in a transaction index.

    Attributes:
        unread_bits: low bits of the 16 that it does not read; then it takes any version that is not above 0.
        says: end of the message of its exception.
    """

    unread_bits: int
    says: str

    def read(self, stated: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
        """Return the versions that the broker reads."""
        return stated >> self.unread_bits

    def are_unknown(self, stated: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
        """Return which versions the broker refuses."""
        read = self.read(stated)
        return read > 0 if self.unread_bits else read != 0


def _check_transactions(index: WritableTransactionIndex, disk: Disk, versions: _Versions) -> None:
    """Check all entries of a transaction index, if it exists.

    Raises:
        CorruptIndexError: a transaction ends below the segment's base offset.
        BrokerFailure: a transaction has an unknown version, or the index is too large.
    """
    path = index.path
    if not disk.exists(path):
        return
    with disk.open(path, writable=False) as file:
        for position in range(0, file.size() // ENTRY.size * ENTRY.size, _TRANSACTIONS_AT_ONCE):
            data = file.read_at(position, _TRANSACTIONS_AT_ONCE)
            if position >= TRANSACTIONS_LIMIT:
                raise BrokerFailure(
                    Outcome.UNKNOWN,
                    "",
                    f"{path} has {file.size()} bytes, more than any segment needs: only the first"
                    f" {TRANSACTIONS_LIMIT} were checked",
                )
            whole = data[: len(data) // ENTRY.size * ENTRY.size]
            _check_entries(whole, path, index.base_offset, versions)


def _check_entries(data: bytes, path: str, base_offset: Offset, versions: _Versions) -> None:
    entries = np.frombuffer(data, ENTRY.dtype)
    is_unknown = versions.are_unknown(entries["version"])
    odd = np.flatnonzero(is_unknown | (entries["last_offset"] < base_offset))
    if not len(odd):
        return
    entry = entries[odd[0]]
    if is_unknown[odd[0]]:
        raise stops(
            "KafkaException",
            f"Unexpected aborted transaction version {versions.read(entry['version'])} in transaction"
            f" index {path}, {versions.says}",
        )
    raise CorruptIndexError(
        "an aborted transaction ends below the segment's base offset",
        path=path,
        expected=f"at least {base_offset}",
        found=int(entry["last_offset"]),
    )


def _find_by_base_offset(
    records: WritableFileRecords, index: WritableOffsetIndex, offset: Offset, start: Position
) -> BatchPosition | None:
    return find_offset(records.file, offset, max(_looked_up(index, offset), start), records.end)


def _find_by_last_offset(
    records: WritableFileRecords, index: WritableOffsetIndex, offset: Offset, start: Position
) -> BatchPosition | None:
    begin = max(_looked_up(index, offset), start)
    return find_last_offset(records.file, offset, begin, records.end)


BROKER_SEGMENT_RULES = SegmentRules(
    walk_frames,
    _find_by_base_offset,
    check_transactions,
    to_int64,
    smallest_base=-MAX_INT64 - 1,
)
RULES_BEFORE_44 = BROKER_SEGMENT_RULES._replace(check_transactions=check_first_bytes)
RULES_BEFORE_41 = RULES_BEFORE_44._replace(find=_find_by_last_offset)


def _looked_up(index: WritableOffsetIndex, target: Offset) -> Position:
    """Return the position that a broker finds in an index: its own search, since the entries may be in any order.

    The last entries are searched first, and the others only if the target is not among them.
    """
    count = index.entries
    if count == 0:
        return 0
    low, high = max(0, count - 1 - _WARM_ENTRIES), count - 1
    if index.entry_at(low).offset >= target:
        if index.entry_at(0).offset > target:
            return 0
        low, high = 0, low
    while low < high:
        middle = (low + high + 1) // 2
        entry = index.entry_at(middle)
        if entry.offset == target:
            return entry.position
        if entry.offset > target:
            high = middle - 1
        else:
            low = middle
    return index.entry_at(low).position
