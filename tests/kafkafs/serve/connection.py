"""Connections that speak the protocol of a broker byte by byte."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Any, Self

from engine.topics.message.decoding import read_message
from kafkafs.serve.protocol.api import Api
from tests.kafkafs.serve.serving import START_SECONDS, Served
from tests.message_bytes import message_bytes


class Connection:
    """A connection of a client that sends any bytes.

    Args:
        served: the server.
        tls: settings of TLS; None without.
    """

    def __init__(self, served: Served, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_connection((served.host, served.port), START_SECONDS)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=served.host)
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def receive(self, size: int) -> bytes:
        """Receive exactly this many bytes, or all up to the end of the connection."""
        parts = bytearray()
        while len(parts) < size:
            try:
                data = self._socket.recv(size - len(parts))
            except ConnectionResetError:
                break
            if not data:
                break
            parts += data
        return bytes(parts)

    @property
    def is_closed(self) -> bool:
        """Whether the server closes the connection without another byte."""
        return self.receive(1) == b""

    def ask(self, key: int, version: int, **fields: Any) -> dict[str, Any]:
        """Send a request and return the fields of its answer."""
        self.send(request(key, version, self._number + 1, **fields))
        self._number += 1
        return self.answer(key, version, self._number)

    def answer(self, key: int, version: int, number: int) -> dict[str, Any]:
        """Return the fields of the next answer."""
        (size,) = struct.unpack(">i", self.receive(4))
        data = self.receive(size)
        assert len(data) == size
        assert struct.unpack_from(">i", data)[0] == number
        message = Api(key).response
        start = 5 if message.is_flexible(version) and key != 18 else 4
        found, end = read_message(message, version, data, start)
        assert end == size
        return found


def request(key: int, version: int, number: int, **fields: Any) -> bytes:
    """A request with its length and header."""
    message = Api(key).request
    head = struct.pack(">hhih", key, version, number, 4) + b"test"
    if message.is_flexible(version):
        head += b"\0"
    body = message_bytes(message, version, **fields)
    return struct.pack(">i", len(head) + len(body)) + head + body
