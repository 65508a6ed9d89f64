"""Answers about producers and transactions: DescribeProducers, ListTransactions, DescribeTransactions."""

from __future__ import annotations

from itertools import groupby

from engine.clock import SystemClock
from engine.errors import KafkaStorageError
from engine.replay.transactions import Transaction, TransactionsImage
from engine.state.producer_state_entry import ProducerStateEntry
from engine.topics.transaction_states import STATES
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.metadata import name_error
from kafkafs.serve.patterns import BadPattern, compiled
from kafkafs.serve.request import Fields, Request

_UNKNOWN = -1
_DEAD = "Dead"


def describe_producers(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeProducers: the idempotent producers of partitions."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    _producers(cluster, topic["name"], number)
                    for number in topic["partitionIndexes"]
                ],
            }
            for topic in request.fields["topics"]
        ]
    }


def _producers(cluster: ClusterView, topic: str, number: int) -> Fields:
    answer: Fields = {"partitionIndex": number, "errorCode": ErrorCode.NONE}
    log = cluster.log(topic, number)
    if log is None:
        sentence = None if topic in cluster.topics() else f"there is no topic {topic}"
        return answer | {"errorCode": name_error(topic), "errorMessage": sentence}
    try:
        found = log.view().producers
    except (KafkaStorageError, OSError) as error:
        return answer | {"errorCode": ErrorCode.KAFKA_STORAGE_ERROR, "errorMessage": str(error)}
    return answer | {"activeProducers": [_producer(each) for each in found.values()]}


def _producer(entry: ProducerStateEntry) -> Fields:
    first = entry.current_txn_first_offset
    return {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "lastSequence": entry.last_sequence,
        "lastTimestamp": entry.last_timestamp,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnStartOffset": _UNKNOWN if first is None else first,
    }


def list_transactions(cluster: ClusterView, request: Request) -> Fields:
    """Answer ListTransactions: the transactional ids, as far as filters let them through."""
    fields = request.fields
    pattern = None
    if fields["transactionalIdPattern"]:
        try:
            pattern = compiled(fields["transactionalIdPattern"])
        except BadPattern:
            return {"errorCode": ErrorCode.INVALID_REGULAR_EXPRESSION}
    states = set(fields["stateFilters"])
    image = _image(cluster)
    found = [] if image is None else [image.transaction(name) for name in image.names]
    return {
        "errorCode": ErrorCode.NONE,
        "unknownStateFilters": [each for each in states if each not in STATES.values()],
        "transactionStates": [
            {
                "transactionalId": _sent(each.transactional_id),
                "producerId": each.producer_id,
                "transactionState": each.state,
            }
            for each in found
            if each is not None
            and each.state not in (None, _DEAD)
            and (not states or each.state in states)
            and (not fields["producerIdFilters"] or each.producer_id in fields["producerIdFilters"])
            and _is_older(each, fields["durationFilter"])
            and (pattern is None or pattern.fullmatch(each.transactional_id))
        ],
    }


def _is_older(transaction: Transaction, milliseconds: int) -> bool:
    """Return whether a transaction began longer ago; a negative duration takes all."""
    if milliseconds < 0:
        return True
    start = transaction.start_timestamp
    start = _UNKNOWN if start is None else start
    return SystemClock().now_ms() - start > milliseconds


def describe_transactions(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeTransactions."""
    image = _image(cluster)
    return {
        "transactionStates": [
            _described(image, name) for name in request.fields["transactionalIds"]
        ]
    }


def _described(image: TransactionsImage | None, name: str) -> Fields:
    if not name:
        return {"errorCode": ErrorCode.INVALID_REQUEST, "transactionalId": name}
    found = None if image is None else image.transaction(name)
    if found is None or found.state in (None, _DEAD):
        return {"errorCode": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "transactionalId": name}
    start = found.start_timestamp
    return {
        "errorCode": ErrorCode.NONE,
        "transactionalId": name,
        "transactionState": found.state,
        "transactionTimeoutMs": found.timeout_ms,
        "transactionStartTimeMs": _UNKNOWN if start is None else start,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": [each.partition for each in partitions]}
            for topic, partitions in groupby(
                sorted(found.partitions), key=lambda place: place.topic
            )
        ],
    }


def _image(cluster: ClusterView) -> TransactionsImage | None:
    transactions = cluster.logs.state.transactions
    return transactions.image() if transactions.exists else None


def _sent(text: str) -> str:
    """Return a text that can be sent: bytes that were not UTF-8 on disk become question marks."""
    return text.encode("utf-8", "replace").decode()
