"""Transactional ids as in the transaction coordinator, and the open transactions in the logs.

A transaction is open in a partition until its end marker. The coordinator that will write the marker has a record in
`__transaction_state`: the transaction is Ongoing or about to end, and includes the partition. An open transaction without
such a record hangs: no coordinator will end it, and read_committed consumers wait before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from engine.errors import KafkaStorageError
from engine.json_facts import facts_of
from engine.log.log_directory import LogSource
from engine.log.view import stable_offset
from engine.log.view.log_view import LogView
from engine.log.view.transactions import OngoingTxn
from engine.replay.bounded_cache import BoundedCache
from engine.replay.groups.groups import text_of
from engine.replay.internal_logs import InternalLogs
from engine.replay.keyed_state import KeyedEntry, KeyedState, Owned, carried_forward
from engine.replay.partition_records import Progress, Unreadable, no_progress
from engine.replay.topic_replay import TopicReplay
from engine.topics.internal_topics import decoder_for
from engine.topics.topic_names import TRANSACTION_STATE
from engine.units import Offset, Timestamp, TopicPartition

NONE = -1
MOST_TRANSACTIONS = 16384


class Transaction(NamedTuple):
    """A transactional id.

    Attributes:
        transactional_id: lone surrogates represent bytes that are not UTF-8.
        producer_id, producer_epoch: its current producer; None if its record cannot be read.
        previous_producer_id, next_producer_id: previous and next producer, or None.
        state: Kafka's name of the state, or an unknown number; None if its record cannot be read.
        timeout_ms: time after which the coordinator aborts.
        partitions: partitions of the transaction without an end marker yet.
        start_timestamp: None without a transaction.
        update_timestamp: time of the last change of state.
        client_version: version of the transaction protocol.
        coordinator, record_offset, record_timestamp: of its record in `__transaction_state`.
        note: why the record cannot be read.
    """

    transactional_id: str
    coordinator: int
    record_offset: Offset
    record_timestamp: Timestamp
    producer_id: int | None = None
    producer_epoch: int | None = None
    previous_producer_id: int | None = None
    next_producer_id: int | None = None
    state: str | None = None
    timeout_ms: int | None = None
    partitions: tuple[TopicPartition, ...] = ()
    start_timestamp: Timestamp | None = None
    update_timestamp: Timestamp | None = None
    client_version: int | None = None
    note: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return {
            **facts_of(
                self,
                "transactional_id producer_id producer_epoch previous_producer_id "
                "next_producer_id state timeout_ms",
            ),
            "partitions": [
                {"topic": each.topic, "partition": each.partition} for each in self.partitions
            ],
            **facts_of(
                self,
                "start_timestamp lastUpdateTimestamp=update_timestamp "
                "clientTransactionVersion=client_version coordinatorPartition=coordinator "
                "record_offset record_timestamp note",
            ),
        }


class TransactionsImage:
    """The transactional ids at one moment. Thread-safe."""

    def __init__(self, states: Sequence[KeyedState]) -> None:
        self._states = states
        self._built = BoundedCache(MOST_TRANSACTIONS, self._build)

    def __len__(self) -> int:
        return len(self._places)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The transactional ids, sorted; lone surrogates represent bytes that are not UTF-8."""
        return tuple(sorted(text_of(owner) for owner in self._places))

    @property
    def unreadable(self) -> tuple[Unreadable, ...]:
        """Bytes without readable records."""
        return tuple(each for state in self._states for each in state.unreadable)

    def transaction(self, name: str) -> Transaction | None:
        """Return a transactional id by name, or None."""
        owner = name.encode("utf-8", "surrogateescape")
        return self._built.get(owner) if owner in self._places else None

    def _build(self, owner: bytes) -> Transaction:
        state = self._states[self._places[owner]]
        return _transaction(owner, state.owners[owner], state.partition.partition)

    def holder_of(self, producer_id: int) -> Transaction | None:
        """Return the transactional id of a producer id, if the records still have it."""
        name = self._holders.get(producer_id)
        return None if name is None else self.transaction(name)

    @cached_property
    def _holders(self) -> Mapping[int, str]:
        """Transactional ids by producer id; current producers take precedence over previous and next ones."""
        now: dict[int, str] = {}
        others: dict[int, str] = {}
        for name in self.names:
            found = self.transaction(name)
            if found is None or found.producer_id is None:
                continue
            now[found.producer_id] = name
            for other in (found.previous_producer_id, found.next_producer_id):
                if other is not None:
                    others[other] = name
        return others | now

    @cached_property
    def _places(self) -> Mapping[bytes, int]:
        """Index of the state with the newest record of each transactional id."""
        places: dict[bytes, int] = {}
        for place, state in enumerate(self._states):
            for owner in state.owners:
                known = places.get(owner)
                if known is None or _newest(state.owners[owner]).timestamp > (
                    _newest(self._states[known].owners[owner]).timestamp
                ):
                    places[owner] = place
        return places


def _newest(entries: Owned) -> KeyedEntry:
    return max(entries.values(), key=lambda entry: entry.offset)


def _transaction(owner: bytes, entries: Owned, coordinator: int) -> Transaction:
    """Make a transactional id from its record."""
    decoder = decoder_for(TRANSACTION_STATE)
    assert decoder is not None
    key, entry = max(entries.items(), key=lambda item: item[1].offset)
    found = Transaction(text_of(owner), coordinator, entry.offset, entry.timestamp)
    decoded = decoder.decode(key, entry.value)
    if decoded.key is None or decoded.value is None:
        return found._replace(note=decoded.key_note or decoded.value_note or "not readable")
    value = decoded.value["data"]
    return found._replace(
        producer_id=value["producerId"],
        producer_epoch=value["producerEpoch"],
        previous_producer_id=_or_none(value.get("previousProducerId", NONE)),
        next_producer_id=_or_none(value.get("nextProducerId", NONE)),
        state=value["transactionStatus"],
        timeout_ms=value["transactionTimeoutMs"],
        partitions=tuple(_partitions(value.get("transactionPartitions") or ())),
        start_timestamp=_or_none(value["transactionStartTimestampMs"]),
        update_timestamp=_or_none(value["transactionLastUpdateTimestampMs"]),
        client_version=value.get("clientTransactionVersion", 0),
    )


def _partitions(topics: Sequence[dict[str, Any]]) -> Iterator[TopicPartition]:
    for topic in topics:
        for partition in topic["partitionIds"]:
            yield TopicPartition(topic["topic"], partition)


def _or_none(number: int) -> int | None:
    return None if number == NONE else number


def replay_transactions(
    source: LogSource | InternalLogs, progress: Progress = no_progress
) -> TopicReplay[KeyedState, TransactionsImage]:
    """Return a replay of the transactional ids of a source."""
    logs = InternalLogs.of_source(source)
    return TopicReplay(logs, TRANSACTION_STATE, carried_forward, TransactionsImage, progress)


class OpenTransaction(NamedTuple):
    """A transaction without an end marker in a partition.

    Attributes:
        partition, producer_id, producer_epoch: its partition and producer.
        first_offset: its first offset in the partition.
        first_timestamp: timestamp of its first record; None if it cannot be read.
        newest_timestamp: largest timestamp of the partition's log.
        transactional_id: None if `__transaction_state` does not have the producer id.
        coordinator_state: state of that id in the coordinator.
        hangs: whether no coordinator will end it; None if unknown, because the source does not have the partition of
            `__transaction_state` that may have its record.
        reason: why it hangs, or why this is unknown.
    """

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    first_offset: Offset
    first_timestamp: Timestamp | None
    newest_timestamp: Timestamp | None
    transactional_id: str | None
    coordinator_state: str | None
    hangs: bool | None
    reason: str | None

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        return facts_of(
            self,
            "topic=partition.topic partition=partition.partition producer_id "
            "producer_epoch first_offset first_timestamp newest_timestamp "
            "transactional_id coordinator_state hangs reason",
        )


def open_transactions(
    source: LogSource,
    image: TransactionsImage | None,
    *,
    is_complete: bool = True,
) -> Iterator[OpenTransaction]:
    """Yield the open transactions of all logs of a source, by topic, partition and offset.

    Args:
        source: the logs.
        image: the coordinators' state; None if the source does not have it.
        is_complete: whether the image has all partitions of the topic.

    Raises FileNotFoundError for a segment deleted in the meantime, other OSErrors.
    """
    logs = [log for name, log in source.partitions().items() if name == str(log.topic_partition)]
    for log in sorted(logs, key=lambda log: log.topic_partition):
        view = log.view_or_none()
        if view is None:
            continue
        for txn in _ongoing(view):
            holder = None if image is None else image.holder_of(txn.producer_id)
            hangs, reason = _fate(image, view.partition, holder, is_complete=is_complete)
            newest = view.max_timestamp
            yield OpenTransaction(
                view.partition,
                txn.producer_id,
                txn.producer_epoch,
                txn.first_offset,
                _timestamp_at(view, txn.first_offset),
                None if newest is None else newest.timestamp,
                None if holder is None else holder.transactional_id,
                None if holder is None else holder.state,
                hangs,
                reason,
            )


def _ongoing(view: LogView) -> tuple[OngoingTxn, ...]:
    if view.ended is not None:
        ongoing = stable_offset.transaction_state(view, view.log_end_offset).ongoing
        return tuple(each for each in ongoing if each.producer_id not in view.ended)
    return view.open_transactions


def _fate(
    image: TransactionsImage | None,
    partition: TopicPartition,
    holder: Transaction | None,
    *,
    is_complete: bool,
) -> tuple[bool | None, str | None]:
    """Return whether a transaction hangs, and why, like kafka-transactions: its partition is not the coordinator's."""
    if image is None:
        return None, "the source holds no partition of __transaction_state"
    if holder is None and not is_complete:
        return None, "not all of __transaction_state is in the source and can be read"
    if holder is None:
        return True, "no transactional id has this producer id"
    if partition in holder.partitions:
        return False, None
    return True, f"the coordinator's transaction ({holder.state}) does not include this partition"


def _timestamp_at(view: LogView, offset: Offset) -> Timestamp | None:
    try:
        found = view.record(offset)
    except KafkaStorageError:
        return None
    if found is None:
        return None
    columns, place = found
    return int(columns.timestamp[place])
