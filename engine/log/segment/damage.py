"""The kinds of damage in a records file."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class DamageKind(StrEnum):
    """The kind of damage of bytes that a scan leaves out of its runs."""

    CRC_MISMATCH = "crc_mismatch"
    BAD_LENGTH = "bad_length"
    UNKNOWN_MAGIC = "unknown_magic"
    BATCH_TOO_LARGE = "batch_too_large"
    """A batch above `Budgets.batch_bytes`."""
    BAD_OFFSETS = "bad_offsets"
    OFFSET_ORDER = "offset_order"
    """Good batches that are out of place: their offsets are those of another segment, or of other batches."""
    ZEROS = "zeros"
    """Zeros with batches after them."""
    UNREADABLE = "unreadable"
    """Bytes that the device cannot read, with the rest of their batches."""
    MISSING = "missing"
    """Offsets without bytes: their batches, or whole segments, are in no records file; see `engine.verdict`."""
    TORN_TAIL = "torn_tail"
    """The file ends inside a batch, as after a crash."""
    ZERO_TAIL = "zero_tail"
    """Zeros up to the end of the file, as in a preallocated one."""

    @property
    def is_tail(self) -> bool:
        """Whether the bytes are the end of the file, which may not have been written yet."""
        return self in (DamageKind.TORN_TAIL, DamageKind.ZERO_TAIL)

    @property
    def is_quiet(self) -> bool:
        """Whether the bytes are harmless: they never held a record."""
        return self is DamageKind.ZERO_TAIL

    @property
    def is_zeros(self) -> bool:
        """Whether the bytes are zeros."""
        return self in (DamageKind.ZEROS, DamageKind.ZERO_TAIL)

    @property
    def rule(self) -> str:
        """Id of the check's rule that the bytes break."""
        return _RULES[self]


class ElsewhereKind(StrEnum):
    """What may still hold lost records."""

    LEFTOVER = "leftover"
    """A file or folder that a broker set aside; `LeftoverLog` has it by this name."""
    COPY = "copy"
    """The partition's folder in another log dir of the source."""
    TIERED = "tiered"
    """Tiered storage, or a copy of it."""
    REPLICA = "replica"
    """Another node, by its number, to which the metadata assigns the partition."""


class Elsewhere(NamedTuple):
    """A place that may still hold lost records; the kind says what its name is."""

    kind: ElsewhereKind
    name: str

    @classmethod
    def of(cls, facts: Mapping[str, str]) -> Elsewhere:
        """Return the place that `to_json` has made an object of."""
        return cls(ElsewhereKind(facts["kind"]), facts["name"])

    def to_json(self) -> dict[str, str]:
        """Return a JSON object."""
        return {"kind": self.kind.value, "name": self.name}


_RULES = {
    DamageKind.CRC_MISMATCH: "batch-checksum",
    DamageKind.BAD_LENGTH: "batch-length",
    DamageKind.UNKNOWN_MAGIC: "batch-magic",
    DamageKind.BATCH_TOO_LARGE: "batch-too-large",
    DamageKind.BAD_OFFSETS: "batch-offsets",
    DamageKind.OFFSET_ORDER: "offset-order",
    DamageKind.ZEROS: "batch-zeros",
    DamageKind.UNREADABLE: "unreadable",
    DamageKind.MISSING: "gap-loss",
    DamageKind.TORN_TAIL: "torn-tail",
    DamageKind.ZERO_TAIL: "zero-tail",
}
