"""Answers about quotas and metrics of clients: DescribeClientQuotas, GetTelemetrySubscriptions."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping

from kafkafs.serve.cluster_view import NO_TOPIC_ID, ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

_EXACT, _DEFAULT, _ANY_NAME = 0, 1, 2
"""Matches of a filter: a name, the entry for names without an own one, or every entry of the type."""
_IP, _TYPES = "ip", ("ip", "user", "client-id")
_PUSH_MS = 5 * 60 * 1000
_NO_ID = NO_TOPIC_ID


def describe_client_quotas(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeClientQuotas: the quotas of the cluster's metadata that a filter lets through."""
    components = request.fields["components"]
    wrong = _wrong(components)
    if wrong is not None:
        error, sentence = wrong
        return {"errorCode": error, "errorMessage": sentence, "entries": None}
    image = cluster.image()
    quotas = {} if image is None else image.table("quotas")
    is_strict = request.fields["strict"]
    return {
        "errorCode": ErrorCode.NONE,
        "entries": [
            {
                "entity": [
                    {"entityType": kind, "entityName": name}
                    for kind, name in item.facts["entity"].items()
                ],
                "values": [
                    {"key": key, "value": value}
                    for key, value in sorted(item.facts["quotas"].items())
                ],
            }
            for item in quotas.values()
            if _passes(components, item.facts["entity"], is_strict=is_strict)
        ],
    }


def _wrong(components: list[Fields]) -> tuple[ErrorCode, str] | None:
    """Return the error of a filter that a broker refuses, and what is wrong."""
    kinds: set[str] = set()
    for each in components:
        kind, match, name = each["entityType"], each["matchType"], each["match"]
        if not kind:
            return ErrorCode.INVALID_REQUEST, "Invalid empty entity type."
        if kind in kinds:
            return ErrorCode.INVALID_REQUEST, f"Entity type {kind} cannot appear more than once in the filter."  # fmt: skip
        kinds.add(kind)
        if kind not in _TYPES:
            return ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}"
        if match not in (_EXACT, _DEFAULT, _ANY_NAME):
            return ErrorCode.INVALID_REQUEST, f"Unknown match type {match}"
        if (name is None) == (match == _EXACT):
            return ErrorCode.INVALID_REQUEST, f"Match type {match} does not go with the match {name}"  # fmt: skip
    if _IP in kinds and len(kinds) > 1:
        return ErrorCode.INVALID_REQUEST, "An IP address does not go with a user or a client id."
    return None


def _passes(components: list[Fields], entity: Mapping[str, str | None], *, is_strict: bool) -> bool:
    if is_strict and len(entity) != len(components):
        return False
    return all(
        each["entityType"] in entity
        and (each["matchType"] == _ANY_NAME or entity[each["entityType"]] == each["match"])
        for each in components
    )


def telemetry_subscriptions(_: ClusterView, request: Request) -> Fields:
    """Answer GetTelemetrySubscriptions: no metric is wanted."""
    known = request.fields["clientInstanceId"]
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return {
        "errorCode": ErrorCode.NONE,
        "clientInstanceId": made if known == _NO_ID else known,
        "pushIntervalMs": _PUSH_MS,
        "requestedMetrics": [],
    }
