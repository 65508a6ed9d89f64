"""Write the transaction index of a segment."""

from __future__ import annotations

import os
import threading

from engine.disk.disk import DISK, Disk, StrPath, WritableFile
from engine.index.slots import BytesSlots, Slots
from engine.index.transaction_index import ENTRY, AbortedTxn, TransactionIndex
from engine.units import Offset


class WritableTransactionIndex(TransactionIndex):
    """Aborted transactions in the order of their last offsets; the first one creates the file.

    One thread at a time may change the index while others read; a read sees the entries of its
    start. A partial entry at the end of an existing file is ignored.

    Args:
        start_offset: base offset of the segment.
        path: path of the file, which need not exist.
        disk: disk to open, rename and remove the file.
    """

    path: str

    def __init__(self, start_offset: Offset, path: StrPath, *, disk: Disk = DISK) -> None:
        self.path = os.fspath(path)
        super().__init__(b"", start_offset, path=self.path)
        self._disk = disk
        self._lock = threading.RLock()
        self._file: WritableFile | None = None
        self._count = 0
        self._last_offset: Offset | None = None
        if disk.exists(self.path):
            self._file = disk.open(self.path)
            self._count = self._file.size() // self.entry_size

    @property
    def byte_size(self) -> int:
        """Length of the file in bytes."""
        return 0 if self._file is None else self._file.size()

    def append(self, transaction: AbortedTxn) -> None:
        """Add a transaction.

        Raises ValueError if its last offset is not above that of the last entry, and OSError; then
        nothing was added.
        """
        with self._lock:
            last = self._last_offset
            if last is not None and transaction.last_offset <= last:
                raise ValueError(
                    f"a transaction that ends at {transaction.last_offset} does not follow one that ends at "
                    f"{last} in {self.path}"
                )
            data = ENTRY.pack(transaction)
            self._made_file().write_at(self._count * self.entry_size, data)
            self._count += 1
            self._last_offset = transaction.last_offset

    def collect_aborted_txns(
        self, fetch_offset: Offset, upper_bound: Offset
    ) -> tuple[list[AbortedTxn], bool]:
        """Return the aborted transactions of a range; see `aborted_between`."""
        return self.aborted_between(fetch_offset, upper_bound)

    def all_aborted_txns(self) -> list[AbortedTxn]:
        """Return all transactions in order."""
        return self.all()

    def sanity_check(self) -> None:
        """Raise CorruptIndexError for another version, or a transaction that ends below the start offset."""
        for entry in self:
            if entry.last_offset < self.base_offset:
                raise self._corrupt(
                    f"the aborted transaction {tuple(entry)} ends below the segment's base offset",
                    expected=f"at least {self.base_offset}",
                    found=entry.last_offset,
                )

    def truncate_to(self, offset: Offset) -> None:
        """Remove the transactions that end at or above an offset, and all entries after them."""
        with self._lock:
            last = None
            for slot, transaction in enumerate(self):
                if transaction.last_offset >= offset:
                    self._made_file().truncate(slot * self.entry_size)
                    self._count = slot
                    self._last_offset = last
                    return
                last = transaction.last_offset

    def reset(self) -> None:
        """Remove all transactions; the file stays."""
        with self._lock:
            if self._file is not None:
                self._file.truncate(0)
            self._count = 0
            self._last_offset = None

    def flush(self) -> None:
        """Sync all transactions to the device."""
        with self._lock:
            if self._file is not None:
                self._file.sync()

    def close(self) -> None:
        """Close the file. May be called twice."""
        with self._lock:
            super().close()
            if self._file is not None:
                self._file.close()
                self._file = None

    def delete_if_exists(self) -> bool:
        """Close and remove the file; return whether it existed."""
        self.close()
        return self._disk.remove(self.path, missing_ok=True)

    def rename_to(self, path: StrPath) -> None:
        """Rename the file, if it exists; it stays open. After an OSError the old name stays."""
        with self._lock:
            if self._disk.exists(self.path):
                self._disk.rename(self.path, path)
            self._moved(os.fspath(path))

    def update_parent_dir(self, folder: StrPath) -> None:
        """Update the path after the folder was renamed."""
        self._moved(os.path.join(folder, os.path.basename(self.path)))

    @property
    def _slots(self) -> Slots:
        if self.is_closed:
            raise ValueError(f"{self!r} is closed")
        with self._lock:
            file, size = self._file, self._count * self.entry_size
            data = b"" if file is None else file.read_at(0, size)
        return BytesSlots(data, self.entry_size, is_padded=False)

    def _made_file(self) -> WritableFile:
        if self.is_closed:
            raise ValueError(f"{self!r} is closed")
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
            self._count = self._file.size() // self.entry_size
        return self._file

    def _moved(self, path: str) -> None:
        self.path = path
        if self._file is not None:
            self._file.path = path
