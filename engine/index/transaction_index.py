"""The transaction index of a segment (.txnindex): its aborted transactions.

Entries of 34 bytes, big-endian: version (int16, 0), producer id, first offset of the transaction,
last offset (of the abort marker), and the last stable offset at that time (int64 each), ordered by
last offset. The file is created with the first entry, so most segments have none. See
TransactionIndex in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.coding.layout import Buffer, Int16, Int64, Layout
from engine.errors import LimitExceededError
from engine.index.abstract_index import AbstractIndex
from engine.units import Offset

CURRENT_VERSION = 0
MAX_ENTRIES = 1_000_000


class AbortedTxn(NamedTuple):
    """An aborted transaction: the records of `producer_id` from `first_offset` to `last_offset`."""

    version: Int16
    producer_id: Int64
    first_offset: Int64
    last_offset: Int64
    last_stable_offset: Int64


ENTRY = Layout(AbortedTxn)


class TransactionIndex(AbstractIndex[AbortedTxn]):
    """Entries in order; a missing file has none.

    Iteration raises CorruptIndexError at an entry of another version. Zeros and a partial entry at
    the end are left out.
    """

    entry_size = ENTRY.size

    @property
    def is_empty(self) -> bool:
        """Whether the segment has no aborted transaction."""
        return next(iter(self), None) is None

    def all(self) -> list[AbortedTxn]:
        """Return all entries. Raises LimitExceededError for more than a million."""
        entries = []
        for entry in self:
            entries.append(entry)
            if len(entries) > MAX_ENTRIES:
                raise LimitExceededError(
                    "the index has too many transactions", limit="MAX_ENTRIES", path=self.path
                )
        return entries

    def aborted_between(
        self, fetch_offset: Offset, upper_bound: Offset
    ) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions that touch [fetch_offset, upper_bound), and whether the list is complete.

        It is incomplete if later segments' indexes may have more.
        """
        found = []
        for entry in self:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def check(self) -> None:
        """Raise CorruptIndexError for a partial entry, another version or an offset below the base offset."""
        try:
            self._check_length()
        except FileNotFoundError:
            return
        for slot, entry in enumerate(self):
            if entry.last_offset < self.base_offset:
                raise self._corrupt(
                    "an aborted transaction ends below the segment's base offset",
                    slot,
                    expected=f"at least {self.base_offset}",
                    found=entry.last_offset,
                )

    def __iter__(self) -> Iterator[AbortedTxn]:
        slot = 0
        try:
            for entry in super().__iter__():
                if entry.version != CURRENT_VERSION:
                    raise self._corrupt(
                        "an aborted transaction of unknown version",
                        slot,
                        expected=CURRENT_VERSION,
                        found=entry.version,
                    )
                yield entry
                slot += 1
        except FileNotFoundError:
            return

    def _parse(self, buffer: Buffer, position: int) -> AbortedTxn:
        return ENTRY.unpack(buffer, position)
