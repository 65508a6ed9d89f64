"""Errors that refuse or stop a job, in the Kafka connector's words if it has some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.units import Offset, TopicPartition
from kafkafs.export.errors import OptionError as OptionError


class DataLossError(RuntimeError):
    """Requested records no longer exist, and failOnDataLoss is true."""


_DATA_LOSS = (
    "[KAFKA_DATA_LOSS.{0}] Some data may have been lost because they are not available in the log dir any"
    " more; either the data was aged out by Kafka or the topic may have been deleted before all the data in"
    " the topic was processed. If you don't want your query to fail on such cases, set the source option"
    " failOnDataLoss to false. Reason: {1} SQLSTATE: 22000"
)


def could_not_read(
    partition: TopicPartition, start: Offset, end: Offset, why: str
) -> DataLossError:
    """Return COULD_NOT_READ_OFFSET_RANGE; `why` is the cause."""
    reason = (
        f"Could not read records in offset [{start}, {end}) for topic partition {partition}: {why}."
    )
    return DataLossError(_DATA_LOSS.format("COULD_NOT_READ_OFFSET_RANGE", reason))


def partitions_deleted(partitions: Iterable[TopicPartition]) -> DataLossError:
    """Return PARTITIONS_DELETED: partitions that a query was reading are gone."""
    reason = f"Partitions {listed(partitions)} have been deleted."
    return DataLossError(_DATA_LOSS.format("PARTITIONS_DELETED", reason))


def topics_recreated(ids: Mapping[TopicPartition, tuple[str, str]]) -> DataLossError:
    """Return PARTITIONS_DELETED for topics that were deleted and created again.

    Args:
        ids: topic id of each partition, before and now.
    """
    topics = {partition.topic: both for partition, both in sorted(ids.items())}
    changes = "; ".join(
        f"topic {topic} was deleted and created again (topic id {before} before, {now} now)"
        for topic, (before, now) in topics.items()
    )
    reason = f"Partitions {listed(ids)} have been deleted: {changes}."
    return DataLossError(_DATA_LOSS.format("PARTITIONS_DELETED", reason))


def initial_offset_not_found(partitions: Iterable[TopicPartition]) -> DataLossError:
    """Return INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS: new partitions vanished before they were read."""
    reason = f"Cannot find initial offsets for partitions {listed(partitions)}. They may have been deleted."
    return DataLossError(_DATA_LOSS.format("INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS", reason))


def added_partition_does_not_start_from_zero(
    partition: TopicPartition, start: Offset
) -> DataLossError:
    """Return ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO: the query never saw the first records."""
    reason = f"Added partition {partition} starts from {start} instead of 0."
    code = "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    return DataLossError(_DATA_LOSS.format(code, reason))


def partition_offset_changed(
    partition: TopicPartition, before: Offset, now: Offset
) -> DataLossError:
    """Return PARTITION_OFFSET_CHANGED: the log end is below the offset that the query reached."""
    reason = (
        f"Partition {partition} offset was changed from {before} to {now}. This could be either 1) a user"
        " error that the start offset is set beyond available offset when starting query, or 2) the kafka"
        " topic-partition is deleted and re-created."
    )
    return DataLossError(_DATA_LOSS.format("PARTITION_OFFSET_CHANGED", reason))


def start_offsets_do_not_match(
    specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
) -> OptionError:
    """Return KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED."""
    return OptionError(
        "[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka start offsets don't"
        " match what are assigned. Maybe topic partitions are created or deleted while the query is"
        f" running. Use -1 for latest, -2 for earliest. Specified: {listed(specified)}"
        f" Assigned: {listed(assigned)}"
    )


def timestamps_do_not_match(
    position: str, specified: Iterable[TopicPartition], assigned: Iterable[TopicPartition]
) -> OptionError:
    """Return KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED; `position` is "start" or "end"."""
    return OptionError(
        "[KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED] Partitions specified for Kafka timestamp based"
        f" {position} offsets don't match what are assigned. Maybe topic partitions are created or deleted"
        " while the query is running, or you didn't specify all the partitions."
        f" Specified: {listed(specified)} Assigned: {listed(assigned)}"
    )


def unresolved_start_is_greater(
    kind: str, partition: TopicPartition, start: int, end: int
) -> OptionError:
    """Return UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET; `kind` is "offset" or "timestamp"."""
    return OptionError(
        f"[UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The specified start {kind} {start} is greater"
        f" than the end {kind} {end} for topic {partition.topic} partition {partition.partition}."
    )


def resolved_start_is_greater(partition: TopicPartition, start: Offset, end: Offset) -> OptionError:
    """Return RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET."""
    return OptionError(
        f"[RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET] The resolved start offset {start} is greater than"
        f" the resolved end offset {end} for topic {partition.topic} partition {partition.partition}."
        " Please check whether the start is set beyond the end or the latest available offset, and whether"
        " the partition was deleted and re-created."
    )


def listed(partitions: Iterable[TopicPartition]) -> str:
    """Format sorted partitions as the connector formats a set."""
    return f"Set({', '.join(str(each) for each in sorted(partitions))})"
