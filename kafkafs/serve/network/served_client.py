"""A connection, with what is known of its client."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from kafkafs.serve.request import Fields, Request
from kafkafs.serve.security.login import Login


@dataclass(slots=True)
class ServedClient:
    """A connection, with what is known of its client.

    Attributes:
        name: address and port.
        socket: the connection below TLS.
        host, port: where clients are told to connect to.
        shown_host: its address, as brokers tell it.
        login: the state of its login, until it is complete; None where nobody has to log in.
        user: its name, after the login.
        until: time by which it has to have logged in.
        client_id: what it calls itself.
        requests, sent: its requests, and bytes of their answers.
    """

    name: str
    socket: trio.socket.SocketType
    host: str
    port: int
    shown_host: str
    login: Login | None
    user: str | None = None
    until: float = 0.0
    client_id: str = ""
    requests: int = 0
    sent: int = 0

    def facts(self) -> Fields:
        """Return what the operator is told."""
        names = {"client": self.name, "clientId": self.client_id, "user": self.user}
        return names | {"requests": self.requests, "bytesSent": self.sent}

    def request(self, version: int, client_id: str | None, fields: Fields, size: int) -> Request:
        """Return a request of the client."""
        return Request(
            version,
            fields,
            self.host,
            self.port,
            f"{self.name} ({client_id})",
            client_id or "",
            self.shown_host,
            size,
            self.user,
        )
