"""The states of transactional ids in `__transaction_state`: their history, and the records that complete them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from engine.rebuild.assembly.pieces import Piece
from engine.recover.coordinators.coordinator_log import (
    CoordinatorMessage,
    KeyedValue,
    coordinator_records,
)
from engine.replay.partition_records import ReplayedRecord
from engine.topics.topic_names import TRANSACTION_STATE
from engine.units import Offset, Timestamp, TopicPartition

MOST_STATES = 1_000_000
"""States of a partition that are kept, the newest ones."""
EPOCH_BUMPS = 2
"""The version of the client's transactions from which on each end bumps the producer's epoch."""


class Status(IntEnum):
    """Status of a transaction, by Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def is_open(self) -> bool:
        """Whether the coordinator still has to end the transaction."""
        return self in (Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def commits(self) -> bool | None:
        """How the transaction ends; None if that is not decided."""
        if self in (Status.PREPARE_COMMIT, Status.COMPLETE_COMMIT):
            return True
        return False if self in (Status.PREPARE_ABORT, Status.COMPLETE_ABORT) else None


@dataclass(frozen=True, slots=True)
class TransactionalState:
    """A record of a transactional id.

    Attributes:
        transactional_id: the id; lone surrogates represent bytes that are not UTF-8.
        coordinator: number of the partition.
        offset: of the record.
        producer_id, producer_epoch: the producer.
        next_producer_id: the producer after the end of the transaction; -1 if it stays.
        status: status of the transaction.
        partitions: its partitions without an end marker.
        started, updated: times of its start and of the last change; -1 without one.
        bumps: whether its end bumps the producer's epoch.
        key, value: the bytes.
    """

    transactional_id: str
    coordinator: int
    offset: Offset
    producer_id: int
    producer_epoch: int
    next_producer_id: int
    status: Status
    partitions: frozenset[TopicPartition]
    started: Timestamp
    updated: Timestamp
    bumps: bool
    key: bytes
    value: bytes

    @property
    def data_epoch(self) -> int:
        """Epoch of the transaction's data."""
        ended = self.bumps and self.status is not Status.ONGOING
        return self.producer_epoch - 1 if ended else self.producer_epoch

    @property
    def marker_epoch(self) -> int:
        """Epoch of the transaction's end markers."""
        return self.data_epoch + 1 if self.bumps else self.data_epoch


class _Messages:
    def __init__(self) -> None:
        self.key = CoordinatorMessage("transaction_log.txt", "TransactionLogKey")
        self.value = CoordinatorMessage("transaction_log.txt", "TransactionLogValue")


def transactional_states(pieces: Iterable[Piece], coordinator: int) -> list[TransactionalState]:
    """Return the states that a partition holds, in the order of the log."""
    read = _Messages()
    name = f"{TRANSACTION_STATE}-{coordinator}"
    found: list[TransactionalState] = []
    for record in coordinator_records(pieces, name):
        if not isinstance(record, ReplayedRecord) or not record.key or record.value is None:
            continue
        key, value = read.key.read_key(record.key), read.value.read(record.value)
        if key is None or value is None or value["transactionStatus"] not in set(Status):
            continue
        partitions = frozenset(
            TopicPartition(topic["topic"], number)
            for topic in value["transactionPartitions"] or ()
            for number in topic["partitionIds"]
        )
        found.append(
            TransactionalState(
                key["transactionalId"],
                coordinator,
                record.offset,
                value["producerId"],
                value["producerEpoch"],
                value["nextProducerId"],
                Status(value["transactionStatus"]),
                partitions,
                value["transactionStartTimestampMs"],
                value["transactionLastUpdateTimestampMs"],
                value["clientTransactionVersion"] >= EPOCH_BUMPS,
                record.key,
                record.value,
            )
        )
        if len(found) > 2 * MOST_STATES:
            del found[:-MOST_STATES]
    return found


def completed(state: TransactionalState, *, commits: bool, now: Timestamp) -> KeyedValue:
    """Return the record that says that a transaction is complete."""
    message = _Messages().value
    fields = message.read(state.value)
    assert fields is not None
    status = Status.COMPLETE_COMMIT if commits else Status.COMPLETE_ABORT
    changed = {
        "producerEpoch": state.marker_epoch,
        "transactionStatus": int(status),
        "transactionPartitions": [],
        "transactionLastUpdateTimestampMs": now,
    }
    return KeyedValue(state.key, message.write(fields | changed, state.value))
