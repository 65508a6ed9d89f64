"""The common part of batches of all magics: bytes loaded when needed, and errors with their position."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from engine.budgets import Budgets
from engine.coding.compression import CompressionType, decompress
from engine.coding.fixed_width import read_int32
from engine.coding.layout import Buffer
from engine.errors import (
    CorruptRecordError,
    DamagedFileError,
    InvalidRecordError,
    LimitExceededError,
)
from engine.record.attributes import COMPRESSION_MASK
from engine.record.batch_frame import LENGTH_POSITION, LOG_OVERHEAD, BatchHeader, MessageHeader0

Load: TypeAlias = Callable[[], Buffer]


class BatchBody(ABC):
    """Bytes of a batch, their position, and the fields that the headers of all magics have.

    Args:
        buffer: at least the batch's header.
        position: position of the batch in the buffer.
        file_position: position of the batch in its file, for errors.
        path: the file, for errors.
        load: returns the bytes of the whole batch; called once, if `buffer` has only the header.
    """

    __slots__ = ("_load", "_view", "file_position", "header", "path", "size")

    header: BatchHeader | MessageHeader0

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
        """Bytes in the file, with the offset and length fields."""
        self.header = self._read_header()

    @abstractmethod
    def _read_header(self) -> BatchHeader | MessageHeader0:
        """Return the header in the first bytes. Raises CorruptRecordError for another magic."""

    @property
    def raw(self) -> memoryview:
        """Bytes of the whole batch, as in the file. Shorter if the buffer ends early."""
        view, size = self._view, self.size
        if len(view) < size and self._load is not None:
            view = self._view = memoryview(self._load())
            self._load = None
        return view if len(view) == size else view[: max(0, size)]

    @property
    def magic(self) -> int:
        """Version of the format."""
        return self.header.magic

    @property
    def crc(self) -> int:
        """Checksum that the header states."""
        return self.header.crc

    @property
    def attributes(self) -> int:
        """Attribute bits: 16 in magic 2, else 8."""
        return self.header.attributes

    @property
    def codec_id(self) -> int:
        """Number of the codec, perhaps an unknown one."""
        return self.header.attributes & COMPRESSION_MASK

    @property
    def is_compressed(self) -> bool:
        """Whether the batch has a codec."""
        return self.codec_id != 0

    @property
    def compression(self) -> CompressionType:
        """Codec. Raises InvalidRecordError when its number is unknown."""
        try:
            return CompressionType(self.codec_id)
        except ValueError:
            raise self.invalid("the codec is unknown", found=self.codec_id) from None

    def at(self, error: DamagedFileError) -> DamagedFileError:
        """Return the same error with this batch's path and position."""
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
        """Raise LimitExceededError for a batch above the budget of bytes read into memory."""
        if self.size > budgets.batch_bytes:
            raise self.at(
                LimitExceededError(
                    "the batch is too large to be read",
                    limit="batch_bytes",
                    expected=f"at most {budgets.batch_bytes} bytes",
                    found=self.size,
                )
            )

    def check_crc(self, computed: int, noun: str) -> None:
        """Raise CorruptRecordError if the header's checksum differs from the computed one.

        `noun` is the batch or the message, for the error.
        """
        if computed != self.header.crc:
            raise CorruptRecordError(
                f"the checksum of the {noun} is wrong",
                path=self.path,
                position=self.file_position,
                expected=self.header.crc,
                found=computed,
            )

    def inflate(self, data: Buffer, budgets: Budgets) -> Buffer:
        """Return data of this batch, inflated. Raises the errors of `decompress`, with path and position."""
        codec = self.compression
        if codec is CompressionType.NONE:
            return data
        try:
            return decompress(codec, data, limit=budgets.inflated_bytes, magic=self.magic)
        except DamagedFileError as error:
            raise self.at(error) from None
