"""A request, and what a handler needs to answer it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Fields: TypeAlias = dict[str, Any]
"""Fields of a message by Kafka's names."""


class Request(NamedTuple):
    """A request.

    Attributes:
        version: version of the API.
        fields: the fields.
        host, port: address under which the client reached the server, or the one that the operator states.
        client: the client's address and id, for the log.
        client_id: what the client calls itself.
        client_host: address of the client, as brokers tell it.
        size: bytes of the request.
        user: the name that the client proved; None where nobody logs in.
    """

    version: int
    fields: Fields
    host: str
    port: int
    client: str = ""
    client_id: str = ""
    client_host: str = ""
    size: int = 0
    user: str | None = None
