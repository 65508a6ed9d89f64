"""Answers to requests that write: the error that makes a client stop at once, with a sentence where there is room."""

from __future__ import annotations

from kafkafs.serve.asked import Asked, Fields
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode

READ_ONLY = "kafkafs serve is read-only: it shows log directories and writes nothing"
_UNKNOWN = -1


def produce(_: ClusterView, asked: Asked) -> Fields | None:
    """Answer Produce: a violated policy, which producers do not try again. None if the client wants no answer."""
    if asked.fields["acks"] == 0:
        return None
    return {
        "responses": [
            {
                "name": topic["name"],
                "topicId": topic["topicId"],
                "partitionResponses": [
                    {
                        "index": each["index"],
                        "errorCode": ErrorCode.POLICY_VIOLATION,
                        "baseOffset": _UNKNOWN,
                        "logAppendTimeMs": _UNKNOWN,
                        "logStartOffset": _UNKNOWN,
                        "errorMessage": READ_ONLY,
                    }
                    for each in topic["partitionData"]
                ],
            }
            for topic in asked.fields["topicData"]
        ]
    }


def init_producer_id(_: ClusterView, asked: Asked) -> Fields:
    """Answer InitProducerId: no authorization, the error that is fatal to every idempotent producer."""
    return {
        "errorCode": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "producerId": _UNKNOWN,
        "producerEpoch": _UNKNOWN,
    }
