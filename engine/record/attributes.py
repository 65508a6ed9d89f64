"""The attribute bits of a batch (magic 2) or a message (magic 0, 1): codec, timestamp type, flags.

Kafka reads the low 8 of the 16 bits only. Bits 4 to 7 have no meaning in magic 0 and 1, bit 3 none
in magic 0.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, overload

from engine.arrays import np, npt
from engine.coding.compression import CODEC_NAMES, CompressionType

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40


class TimestampType(IntEnum):
    """Meaning of a record's timestamp; magic 0 has none."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """Kafka's name of the type, as its tools print it."""
        return _LABELS[self]


_LABELS = {
    TimestampType.NO_TIMESTAMP_TYPE: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def codec_labels(unknown: str) -> tuple[str, ...]:
    """Return a name for each number that fits the codec bits.

    >>> codec_labels("unknown {}")[3:6]
    ('lz4', 'zstd', 'unknown 5')
    """
    others = range(len(CODEC_NAMES), COMPRESSION_MASK + 1)
    return (*CODEC_NAMES, *(unknown.format(number) for number in others))


def timestamp_type_of(attributes: int) -> TimestampType:
    """Return the timestamp type that attributes of magic 1 or 2 state."""
    if attributes & TIMESTAMP_TYPE_MASK:
        return TimestampType.LOG_APPEND_TIME
    return TimestampType.CREATE_TIME


@overload
def has_flag(magic: int, attributes: int, mask: int) -> bool: ...
@overload
def has_flag(
    magic: npt.NDArray[Any], attributes: npt.NDArray[Any], mask: int
) -> npt.NDArray[np.bool_]: ...
def has_flag(magic: Any, attributes: Any, mask: int) -> Any:
    """Return whether a batch has one of the flags; columns of batches are taken, too. Magic 0 and 1 have none."""
    return (magic >= 2) & (attributes & mask != 0)


@overload
def is_control(magic: int, attributes: int) -> bool: ...
@overload
def is_control(magic: npt.NDArray[Any], attributes: npt.NDArray[Any]) -> npt.NDArray[np.bool_]: ...
def is_control(magic: Any, attributes: Any) -> Any:
    """Return whether the records of a batch are control records; columns of batches are taken, too."""
    return has_flag(magic, attributes, CONTROL_MASK)


def compute_attributes(
    compression: CompressionType = CompressionType.NONE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    *,
    transactional: bool = False,
    control: bool = False,
    delete_horizon: bool = False,
) -> int:
    """Return the attribute bits. Raises ValueError without a timestamp type: magic 2 needs one."""
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise ValueError("attributes of magic 1 and 2 need a timestamp type")
    return (
        int(compression)
        | (TIMESTAMP_TYPE_MASK if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_MASK if transactional else 0)
        | (CONTROL_MASK if control else 0)
        | (DELETE_HORIZON_MASK if delete_horizon else 0)
    )
