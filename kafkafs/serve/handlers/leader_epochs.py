"""Answer OffsetForLeaderEpoch: where an epoch ends in a log, for clients that look for a truncation."""

from __future__ import annotations

from engine.errors import KafkaStorageError
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.rare_lines import RareLines
from kafkafs.serve.records.partition_fetch import PartitionFetch
from kafkafs.serve.request import Fields, Request

_rare = RareLines()
_UNKNOWN = -1


def offset_for_leader_epoch(
    cluster: ClusterView, fetch: PartitionFetch, request: Request
) -> Fields:
    """Answer OffsetForLeaderEpoch."""
    return {
        "topics": [
            {
                "topic": topic["topic"],
                "partitions": [
                    _partition(cluster, fetch, topic["topic"], each) for each in topic["partitions"]
                ],
            }
            for topic in request.fields["topics"]
        ]
    }


def _partition(cluster: ClusterView, fetch: PartitionFetch, topic: str, wanted: Fields) -> Fields:
    number = wanted["partition"]
    log = cluster.log(topic, number)
    found = None
    if log is None:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        error = fetch.epoch_error(log, wanted["currentLeaderEpoch"])
        if not error:
            try:
                view = log.view()
                epochs, end = view.leader_epochs, view.log_end_offset
                found = epochs.end_offset_for(wanted["leaderEpoch"], end)
            except (OSError, KafkaStorageError) as failed:
                _rare.failed(failed, f"{log.name}: leader epochs")
                error = ErrorCode.KAFKA_STORAGE_ERROR
    epoch, offset = found or (_UNKNOWN, _UNKNOWN)
    return {"errorCode": error, "partition": number, "leaderEpoch": epoch, "endOffset": offset}
