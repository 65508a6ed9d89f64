"""The records of a recovered partition of a coordinator's topic, and new ones for its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from engine.budgets import DEFAULT_BUDGETS
from engine.errors import KafkaStorageError
from engine.rebuild.assembly.pieces import Piece
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.replay.partition_records import (
    ReplayedControl,
    ReplayedRecord,
    Unreadable,
    records_of_run,
)
from engine.topics import message as messages
from engine.topics.message.decoding import read_message
from engine.topics.message.encoding import write_message
from engine.topics.message.notation import read_messages
from engine.units import Offset, Timestamp


class KeyedValue(NamedTuple):
    """A key and a value of a coordinator's topic, as bytes."""

    key: bytes
    value: bytes | None


class CoordinatorMessage:
    """The schema of a key, whose bytes begin with its type, or of a value, whose bytes begin with its version.

    Args:
        file, name: the file of the schema and its name.
    """

    def __init__(self, file: str, name: str) -> None:
        self._message = read_messages(messages.__name__, file)[name]

    def read_key(self, key: bytes) -> dict[str, Any] | None:
        """Return the fields of a key; None if the bytes do not parse."""
        return self._read(key, 0)

    def read(self, value: bytes) -> dict[str, Any] | None:
        """Return the fields of a value; None if the bytes do not parse."""
        return self._read(value, int.from_bytes(value[:2], "big", signed=True))

    def write_key(self, fields: Mapping[str, Any], key_type: int) -> bytes:
        """Return the bytes of a key of some type."""
        return bytes(write_message(self._message, 0, fields, key_type.to_bytes(2, "big"))[0])

    def _read(self, data: bytes, version: int) -> dict[str, Any] | None:
        try:
            return read_message(self._message, version, data, 2)[0]
        except KafkaStorageError:
            return None

    def write(self, fields: Mapping[str, Any], like: bytes) -> bytes:
        """Return the bytes of the fields, in the version of other bytes."""
        head = like[:2]
        version = int.from_bytes(head, "big", signed=True)
        return bytes(write_message(self._message, version, fields, head)[0])


def coordinator_records(
    pieces: Iterable[Piece], name: str
) -> Iterator[ReplayedRecord | ReplayedControl]:
    """Yield the records of the pieces of a partition, in order; what does not decode is left out.

    Raises:
        OSError: a file cannot be read.
    """
    for piece in pieces:
        for run in piece.runs():
            for each in records_of_run(run, DEFAULT_BUDGETS, name, ""):
                if not isinstance(each, Unreadable):
                    yield each
            del run  # free it before the next one is read: a batch may be as large as the budget


def appended_batch(
    records: Sequence[KeyedValue], base_offset: Offset, leader_epoch: int, timestamp: Timestamp
) -> bytes:
    """Return a batch of records as a coordinator appends them."""
    made = records_of(
        *(SimpleRecord(each.key, each.value, timestamp) for each in records),
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )
    return bytes(made.buffer)
