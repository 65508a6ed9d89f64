"""A moment of a cluster, as a person names it, and where it is in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import KafkaStorageError
from engine.log.log_directory import LogSource
from engine.log.view.log_view import LogView
from engine.topics.topic_names import CLUSTER_METADATA, TRANSACTION_STATE
from engine.units import Offset, Timestamp, TopicPartition

if TYPE_CHECKING:
    from engine.replay.cluster import ClusterChange

METADATA = TopicPartition(CLUSTER_METADATA, 0)


class MomentError(KafkaStorageError):
    """The source does not have the record or the event that names a moment."""


class Moment(NamedTuple):
    """One of: a time, just before a record, just before a topic was deleted, just after a transaction.

    Attributes:
        time: in milliseconds; records up to it are in.
        record: a partition and an offset.
        deleted: the name of a topic; its last deletion counts.
        transaction: a transactional id; its last transaction that has ended counts.
    """

    time: Timestamp | None = None
    record: tuple[TopicPartition, Offset] | None = None
    deleted: str | None = None
    transaction: str | None = None


class FoundMoment(NamedTuple):
    """A moment in time, and the end of a partition that it names.

    Attributes:
        time: in milliseconds; records up to it are in.
        pinned: end of a partition that does not depend on the time.
    """

    time: Timestamp
    pinned: tuple[TopicPartition, Offset] | None = None


def found(moment: Moment, source: LogSource) -> FoundMoment:
    """Find a moment in a source.

    Raises:
        MomentError: there is no such record, deletion or transaction.
        OSError: a log cannot be read.
    """
    if moment.time is not None:
        return FoundMoment(moment.time)
    if moment.record is not None:
        return _before_record(source, *moment.record)
    if moment.transaction is not None:
        return _after_transaction(source, moment.transaction)
    assert moment.deleted is not None
    return _before_deletion(source, moment.deleted)


def _view(source: LogSource, partition: TopicPartition) -> LogView:
    log = source.partitions().get(str(partition))
    if log is None:
        raise MomentError(f"the source has no {partition}")
    return log.view()


def _before_record(source: LogSource, partition: TopicPartition, offset: Offset) -> FoundMoment:
    view = _view(source, partition)
    read = view.record(offset)
    if read is None:
        bounds = f"offsets {view.log_start_offset} to {view.log_end_offset - 1}"
        raise MomentError(f"{partition} has no record at offset {offset}; it has {bounds}")
    columns, row = read
    batch = view.batch(offset)
    assert batch is not None
    return FoundMoment(
        int(columns.timestamp[row]) - 1, (partition, int(batch[1].table["base_offset"][0]))
    )


def _before_deletion(source: LogSource, topic: str) -> FoundMoment:
    view = _view(source, METADATA)
    names: dict[str, str] = {}
    last: ClusterChange | None = None
    for change in _changes(view):
        if change.kind == "TOPIC_RECORD":
            names[change.facts["topicId"]] = change.facts["name"]
        elif change.kind == "REMOVE_TOPIC_RECORD" and names.get(change.facts["topicId"]) == topic:
            last = change
    if last is None:
        raise MomentError(f"the metadata log has no deletion of topic {topic}")
    return FoundMoment(last.timestamp - 1, (METADATA, last.offset))


def _after_transaction(source: LogSource, transactional_id: str) -> FoundMoment:
    # Imported here: other moments need no coordinators.
    from engine.cut.coordinators import last_end

    logs = source.partitions().values()
    views = [
        each.view_or_none() for each in logs if each.topic_partition.topic == TRANSACTION_STATE
    ]
    ended = last_end((each for each in views if each is not None), transactional_id)
    if ended is None:
        raise MomentError(f"no coordinator tells of a transaction of {transactional_id} that ended")
    return FoundMoment(ended)


def _changes(view: LogView) -> Iterator[ClusterChange]:
    from engine.replay.cluster import cluster_changes, read_snapshot
    from engine.replay.partition_records import replayed_records

    for each in view.kraft_snapshots[:1]:
        snapshot = read_snapshot(view.log, each, [])
        yield from () if snapshot is None else snapshot.changes
    records = replayed_records(view, view.log_start_offset, view.log_end_offset)
    yield from cluster_changes(records, [], [])
