"""Answers to requests of a login where nobody has to log in, or who asks has done so."""

from __future__ import annotations

from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request


def sasl_handshake(_cluster: ClusterView, _request: Request) -> Fields:
    """Answer SaslHandshake: not now."""
    return {"errorCode": ErrorCode.ILLEGAL_SASL_STATE, "mechanisms": []}


def sasl_authenticate(_cluster: ClusterView, _request: Request) -> Fields:
    """Answer SaslAuthenticate: not now."""
    return {
        "errorCode": ErrorCode.ILLEGAL_SASL_STATE,
        "errorMessage": "SaslAuthenticate request received after successful authentication",
        "authBytes": b"",
    }
