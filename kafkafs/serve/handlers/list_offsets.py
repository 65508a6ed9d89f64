"""Answer ListOffsets: the log start, the log end, and the offsets of times."""

from __future__ import annotations

from collections import Counter

from engine.errors import KafkaStorageError, UnsupportedCodecError
from engine.log.partition_log import PartitionLog
from engine.log.view.listed_offset import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    listed_offset,
)
from engine.log.view.log_view import LogView
from engine.units import NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, FoundTimestamp, Timestamp
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.rare_lines import RareLines
from kafkafs.serve.records.partition_fetch import PartitionFetch
from kafkafs.serve.request import Fields, Request

_rare = RareLines()

_SINCE = {
    LATEST_TIMESTAMP: 0,
    EARLIEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
"""The first version of the request that has a code; other times below zero have none."""
_EPOCHS_SINCE = 4
_NOTHING = FoundTimestamp(NO_TIMESTAMP, -1, NO_PARTITION_LEADER_EPOCH)


def list_offsets(cluster: ClusterView, fetch: PartitionFetch, request: Request) -> Fields:
    """Answer ListOffsets."""
    wanted: dict[str, list[Fields]] = {}
    for topic in request.fields["topics"]:
        wanted.setdefault(topic["name"], []).extend(topic["partitions"])
    return {
        "topics": [
            {
                "name": name,
                "partitions": [
                    _partition(cluster, fetch, request, name, each, is_repeated=count > 1)
                    for each, count in _counted(partitions)
                ],
            }
            for name, partitions in wanted.items()
            if partitions
        ]
    }


def _counted(wanted: list[Fields]) -> list[tuple[Fields, int]]:
    """Return each partition once, and how often it is asked for."""
    counts = Counter(each["partitionIndex"] for each in wanted)
    last = {each["partitionIndex"]: each for each in wanted}
    return [(each, counts[number]) for number, each in last.items()]


def _partition(
    cluster: ClusterView,
    fetch: PartitionFetch,
    request: Request,
    topic: str,
    wanted: Fields,
    *,
    is_repeated: bool,
) -> Fields:
    number, time = wanted["partitionIndex"], wanted["timestamp"]
    log = cluster.log(topic, number)
    found = _NOTHING
    if is_repeated:
        error = ErrorCode.INVALID_REQUEST
    elif time < 0 and request.version < _SINCE.get(time, request.version + 1):
        error = ErrorCode.UNSUPPORTED_VERSION
    elif log is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        error = fetch.epoch_error(log, wanted["currentLeaderEpoch"])
        if not error:
            error, found = _look_up(
                cluster, log, time, committed=request.fields["isolationLevel"] == 1
            )
    answer = {
        "partitionIndex": number,
        "errorCode": error,
        "timestamp": found.timestamp,
        "offset": found.offset,
    }
    return (
        answer if request.version < _EPOCHS_SINCE else answer | {"leaderEpoch": found.leader_epoch}
    )


def _look_up(
    cluster: ClusterView, log: PartitionLog, time: Timestamp, *, committed: bool
) -> tuple[ErrorCode, FoundTimestamp]:
    try:
        view = log.view()
        found = listed_offset(view, time, committed=committed)
    except FileNotFoundError:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _NOTHING
    except UnsupportedCodecError as error:
        _rare.failed(error, f"{log.name}: time {time}")
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, _NOTHING
    except (OSError, KafkaStorageError) as error:
        _rare.failed(error, f"{log.name}: time {time}")
        return ErrorCode.KAFKA_STORAGE_ERROR, _NOTHING
    if found is None:
        return ErrorCode.NONE, _NOTHING
    return ErrorCode.NONE, found._replace(leader_epoch=_epoch(cluster, log, view, time, found))


def _epoch(
    cluster: ClusterView, log: PartitionLog, view: LogView, time: Timestamp, found: FoundTimestamp
) -> int:
    """Return the leader epoch that a broker answers with an offset; -1 if it is unknown."""
    if time == LATEST_TIMESTAMP:
        return cluster.leader_epoch(log)
    if time in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        earliest = view.leader_epochs.earliest
        is_known = earliest is not None and earliest.start_offset <= found.offset
        return earliest.epoch if earliest is not None and is_known else NO_PARTITION_LEADER_EPOCH
    return found.leader_epoch
