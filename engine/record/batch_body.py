"""What batches of all magics share in code: their bytes, perhaps loaded late, and errors with their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from engine.budgets import Budgets
from engine.coding.compression import CompressionType, decompress
from engine.coding.fixed_width import read_int32
from engine.coding.layout import Buffer
from engine.errors import DamagedFileError, InvalidRecordError, LimitExceededError
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import LENGTH_POSITION, LOG_OVERHEAD

Load: TypeAlias = Callable[[], Buffer]


class BatchBody:
    """Bytes of a batch and where they are.

    Args:
        buffer: holds at least the batch's header.
        position: where the batch starts in the buffer.
        file_position: where it starts in its file, for errors.
        path: the file, for errors.
        load: gives the bytes of the whole batch; called once, when `buffer` has the header only.
    """

    __slots__ = ("_load", "_view", "file_position", "path", "size")

    def __init__(
        self,
        buffer: Buffer,
        position: int = 0,
        file_position: int = 0,
        path: str | None = None,
        load: Load | None = None,
    ) -> None:
        view = memoryview(buffer)
        self._view = view[position:] if position else view
        self._load = load
        self.file_position = file_position
        self.path = path
        self.size = LOG_OVERHEAD + read_int32(self._view, LENGTH_POSITION)
        """Bytes in the file, offset and length fields included."""

    @property
    def raw(self) -> memoryview:
        """Whole batch as it lies in the file. A memoryview that ends early when the buffer does."""
        view, size = self._view, self.size
        if len(view) < size and self._load is not None:
            view = self._view = memoryview(self._load())
            self._load = None
        return view if len(view) == size else view[: max(0, size)]

    def at(self, error: DamagedFileError) -> DamagedFileError:
        """Return the same error with this batch's place, unless it has one."""
        if error.position is None:
            error.path, error.position = self.path, self.file_position
        return error

    def invalid(
        self,
        reason: str,
        index: int | None = None,
        *,
        expected: object = None,
        found: object = None,
    ) -> InvalidRecordError:
        """Return the error for a record of this batch."""
        return InvalidRecordError(
            reason,
            index=index,
            path=self.path,
            position=self.file_position,
            expected=expected,
            found=found,
        )

    def check_size(self, budgets: Budgets) -> None:
        """LimitExceededError for a batch larger than is read into memory."""
        if self.size > budgets.batch_bytes:
            raise self.at(
                LimitExceededError(
                    "the batch is too large to be read",
                    limit="batch_bytes",
                    expected=f"at most {budgets.batch_bytes} bytes",
                    found=self.size,
                )
            )

    def codec(self, attributes: int) -> CompressionType:
        """Return the codec that attributes state. InvalidRecordError for a number that none has."""
        codec = attributes & COMPRESSION_MASK
        try:
            return CompressionType(codec)
        except ValueError:
            raise self.invalid("the codec is unknown", found=codec) from None

    def inflate(self, codec: CompressionType, data: Buffer, budgets: Budgets, magic: int) -> Buffer:
        """What a codec's data was. Errors of `decompress`, with this batch's place."""
        if codec is CompressionType.NONE:
            return data
        try:
            return decompress(codec, data, limit=budgets.inflated_bytes, magic=magic)
        except DamagedFileError as error:
            raise self.at(error) from None
