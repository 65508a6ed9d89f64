"""Messages by which clients authenticate: SaslHandshake, SaslAuthenticate, from the JSON schemas of Kafka 4.4.0."""

from __future__ import annotations

from engine.topics.message.schema import (
    BYTES,
    INT16,
    INT64,
    STRING,
    Array,
    Field,
    Message,
)
from kafkafs.serve.protocol.api import Api

SASL_HANDSHAKE = Api(
    17,
    Message(
        "SaslHandshakeRequest",
        (Field("mechanism", STRING),),
        first_version=0,
        last_version=1,
    ),
    Message(
        "SaslHandshakeResponse",
        (
            Field("errorCode", INT16),
            Field("mechanisms", Array(STRING)),
        ),
        first_version=0,
        last_version=1,
    ),
)

SASL_AUTHENTICATE = Api(
    36,
    Message(
        "SaslAuthenticateRequest",
        (Field("authBytes", BYTES),),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
    Message(
        "SaslAuthenticateResponse",
        (
            Field("errorCode", INT16),
            Field("errorMessage", STRING, nullable=True),
            Field("authBytes", BYTES),
            Field("sessionLifetimeMs", INT64, since=1),
        ),
        first_version=0,
        last_version=2,
        flexible_since=2,
    ),
)
