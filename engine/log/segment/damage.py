"""The kinds of damage in a records file."""

from __future__ import annotations

from enum import StrEnum


class DamageKind(StrEnum):
    """The kind of a stretch that a scan leaves out of its runs."""

    CRC_MISMATCH = "crc_mismatch"
    BAD_LENGTH = "bad_length"
    UNKNOWN_MAGIC = "unknown_magic"
    BATCH_TOO_LARGE = "batch_too_large"
    """A batch above `Budgets.batch_bytes`."""
    BAD_OFFSETS = "bad_offsets"
    ZEROS = "zeros"
    """Zeros with batches behind them."""
    UNREADABLE = "unreadable"
    """Bytes that the device cannot read, and the rest of the batches that they belong to."""
    TORN_TAIL = "torn_tail"
    """The file ends inside a batch, as after a crash."""
    ZERO_TAIL = "zero_tail"
    """Zeros up to the end of the file, as in a preallocated one."""

    @property
    def is_tail(self) -> bool:
        """Whether the bytes may just not have been written: they are the last of the file."""
        return self in (DamageKind.TORN_TAIL, DamageKind.ZERO_TAIL)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is wrong: no record can have been there."""
        return self is DamageKind.ZERO_TAIL

    @property
    def is_zeros(self) -> bool:
        """Whether the bytes are zeros."""
        return self in (DamageKind.ZEROS, DamageKind.ZERO_TAIL)

    @property
    def rule(self) -> str:
        """The rule of a check that such a stretch breaks."""
        return _RULES[self]


_RULES = {
    DamageKind.CRC_MISMATCH: "batch-checksum",
    DamageKind.BAD_LENGTH: "batch-length",
    DamageKind.UNKNOWN_MAGIC: "batch-magic",
    DamageKind.BATCH_TOO_LARGE: "batch-too-large",
    DamageKind.BAD_OFFSETS: "batch-offsets",
    DamageKind.ZEROS: "batch-zeros",
    DamageKind.UNREADABLE: "unreadable",
    DamageKind.TORN_TAIL: "torn-tail",
    DamageKind.ZERO_TAIL: "zero-tail",
}
