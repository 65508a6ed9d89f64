"""Answer DescribeLogDirs: the log dirs of the source, with the size of each log in them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeAlias

from engine.errors import KafkaStorageError
from engine.files.file_names import FolderState, parse_folder_name
from engine.files.source_files import SourceRoot
from engine.log.joined_logs import JoinedLog
from engine.log.partition_log import PartitionLog
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

_Wanted: TypeAlias = "frozenset[tuple[str, int]] | None"


def describe_log_dirs(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeLogDirs."""
    topics = request.fields["topics"]
    wanted = None
    if topics is not None:
        wanted = frozenset((each["topic"], number) for each in topics for number in each["partitions"])  # fmt: skip
    results = [_log_dir(cluster, root, wanted) for root in cluster.logs.source.roots]
    return {"errorCode": ErrorCode.NONE, "results": results}


def _log_dir(cluster: ClusterView, root: SourceRoot, wanted: _Wanted) -> Fields:
    try:
        root.check_there()
        system = root.statvfs()
        logs = sorted(_logs(cluster, root, wanted), key=itemgetter("name", "partitionIndex"))
    except (KafkaStorageError, OSError):
        return {"errorCode": ErrorCode.KAFKA_STORAGE_ERROR, "logDir": root.path}
    return {
        "errorCode": ErrorCode.NONE,
        "logDir": root.path,
        "topics": [
            {"name": name, "partitions": list(found)}
            for name, found in groupby(logs, itemgetter("name"))
        ],
        "totalBytes": system.f_blocks * system.f_frsize,
        "usableBytes": system.f_bavail * system.f_frsize,
    }


def _logs(cluster: ClusterView, root: SourceRoot, wanted: _Wanted) -> Iterator[Fields]:
    topics = cluster.topics()
    source = cluster.logs.source
    for log in chain(source.partitions().values(), source.replicas().values()):
        if isinstance(log, JoinedLog):
            continue
        topic, number = cluster.place_of(log)
        is_served = topic in topics and number in topics[topic].logs
        if log.root is not root or not is_served or (wanted is not None and (topic, number) not in wanted):  # fmt: skip
            continue
        is_future = _is_future(log)
        if is_future is None:
            continue
        view = log.view_or_none()
        if view is not None:
            yield {
                "name": topic,
                "partitionIndex": number,
                "partitionSize": view.size,
                "offsetLag": _lag(topics[topic].logs[number], view.log_end_offset, is_future),
                "isFutureKey": is_future,
            }


def _is_future(log: PartitionLog) -> bool | None:
    """Return whether a log will take another's place; None for one that is neither that nor the log itself."""
    if not log.folder:
        return False
    state = parse_folder_name(log.folder).state
    return {FolderState.LOG: False, FolderState.FUTURE: True}.get(state)


def _lag(current: PartitionLog, end: int, is_future: bool) -> int:
    """Return how many offsets a log that is being moved is behind the log whose place it will take."""
    view = current.view_or_none() if is_future else None
    return 0 if view is None else max(0, view.log_end_offset - end)
