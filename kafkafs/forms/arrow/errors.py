"""A record that a column cannot show."""

from __future__ import annotations

from engine.units import Offset, TopicPartition

NOT_FITTING = "a time does not fit the column"
"""How the note on a value begins in which a time is null."""


class UndecodableRecordError(ValueError):
    """A key or value that asks for a schema and does not decode.

    Attributes:
        partition: topic and partition.
        offset: offset of the record.
        side: "key" or "value".
        reason: one sentence.
    """

    def __init__(self, partition: TopicPartition, offset: Offset, side: str, reason: str) -> None:
        super().__init__(partition, offset, side, reason)
        self.partition = partition
        self.offset = offset
        self.side = side
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.partition} offset {self.offset}: the {self.side} does not decode: {self.reason}"
        )
