"""Answers about the controllers and moves of replicas: DescribeQuorum, ListPartitionReassignments."""

from __future__ import annotations

from typing import Any

from engine.replay.cluster import ClusterImage
from engine.topics.topic_names import CLUSTER_METADATA
from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

_UNKNOWN = -1
_NOT_METADATA = f"only {CLUSTER_METADATA}-0 has a quorum"
_NO_LEADER: Fields = {"leaderId": _UNKNOWN, "epoch": _UNKNOWN, "voters": []}


def describe_quorum(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeQuorum: the leader and the voters by the newest records of the metadata log.

    The end of the log is that of the source; how far the others were is not known.
    """
    image = cluster.image()
    topics = request.fields["topics"]
    is_metadata = len(topics) == 1 and topics[0]["topicName"] == CLUSTER_METADATA and len(topics[0]["partitions"]) == 1  # fmt: skip
    partition: Fields = {
        "partitionIndex": 0,
        "errorCode": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "errorMessage": _NOT_METADATA,
    }
    if not is_metadata or topics[0]["partitions"][0]["partitionIndex"] or image is None:
        return {
            "errorCode": ErrorCode.NONE,
            "topics": [
                {
                    "topicName": topic["topicName"],
                    "partitions": [
                        partition | {"partitionIndex": each["partitionIndex"]}
                        for each in topic["partitions"]
                    ],
                }
                for topic in topics
            ],
        }
    leader = image.table("quorum").get("leader")
    facts = _NO_LEADER if leader is None else leader.facts
    partition |= {
        "errorCode": ErrorCode.NONE,
        "errorMessage": None,
        "leaderId": facts["leaderId"],
        "leaderEpoch": facts["epoch"],
        "highWatermark": image.next_offset,
        "currentVoters": [
            _replica(cluster, image, *voter) for voter in _voters(image, facts["voters"])
        ],
        "observers": [],
    }
    return {
        "errorCode": ErrorCode.NONE,
        "topics": [{"topicName": CLUSTER_METADATA, "partitions": [partition]}],
        "nodes": _controllers(image),
    }


def _voters(image: ClusterImage, of_leader: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Return numbers and directory ids of the voters: the recorded ones, else those that elected the leader."""
    recorded = image.table("quorum").get("voters")
    voters = of_leader if recorded is None else recorded.facts["voters"]
    return [(each["voterId"], each.get("voterDirectoryId", NO_TOPIC_ID)) for each in voters]


def _replica(cluster: ClusterView, image: ClusterImage, number: int, directory: str) -> Fields:
    is_here = number in cluster.owners.values()
    return {
        "replicaId": number,
        "replicaDirectoryId": directory,
        "logEndOffset": image.next_offset if is_here else _UNKNOWN,
    }


def _controllers(image: ClusterImage) -> list[Fields]:
    return [
        {
            "nodeId": number,
            "listeners": [
                {"name": each["name"], "host": each["host"], "port": each["port"]}
                for each in item.facts["endPoints"]
            ],
        }
        for number, item in sorted(image.table("controllers").items())
    ]


def list_reassignments(cluster: ClusterView, request: Request) -> Fields:
    """Answer ListPartitionReassignments: the moves of replicas that had not ended when the metadata ends.

    Without the nodes of the cluster there is one broker, so nothing moves.
    """
    image = cluster.shown_image
    if image is None:
        return {"errorCode": ErrorCode.NONE, "topics": []}
    wanted = request.fields["topics"]
    numbers = None if wanted is None else {each["name"]: each["partitionIndexes"] for each in wanted}  # fmt: skip
    topics = []
    for name, item in image.topics.items():
        rows = image.partitions_of(item.facts["topicId"])
        partitions = [
            {
                "partitionIndex": number,
                "replicas": rows[number].facts["replicas"],
                "addingReplicas": rows[number].facts["addingReplicas"],
                "removingReplicas": rows[number].facts["removingReplicas"],
            }
            for number in sorted(rows)
            if (numbers is None or number in numbers.get(name, ()))
            and (rows[number].facts["addingReplicas"] or rows[number].facts["removingReplicas"])
        ]
        if partitions:
            topics.append({"name": name, "partitions": partitions})
    return {"errorCode": ErrorCode.NONE, "topics": topics}
