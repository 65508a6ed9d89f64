"""The two servers of a directory on raw sockets: the same request goes to both, in bytes."""

from __future__ import annotations

import select
import socket
import struct
from contextlib import suppress
from typing import Any, NamedTuple, Self

from engine.coding.varint import encode_unsigned_varint
from engine.topics.message.decoding import read_message
from kafkafs.serve.protocol.api import Api
from tests.messages import encode

ANSWER_SECONDS = 60.0
CLIENT = "wire"
API_VERSIONS_KEY = 18
REFUSES_OTHER_NODES = (API_VERSIONS_KEY, 5)
"""4.4.0 refuses a request that names another cluster or node; `serve` does not look at these fields yet."""

Fields = dict[str, Any]


class Answer(NamedTuple):
    """What a server answered.

    Attributes:
        fields: fields of the message; None for a connection that was closed without an answer.
        left: bytes that belong to no field, or an encoding that is not the shortest; empty in a good answer.
    """

    fields: Fields | None
    left: str = ""


def request_bytes(key: int, version: int, number: int, fields: Fields) -> bytes:
    """A request with its length and header."""
    message = Api(key).request
    name = CLIENT.encode()
    head = struct.pack(">hhih", key, version, number, len(name)) + name
    if message.is_flexible(version):
        head += encode_unsigned_varint(0)
    body = encode(message, version, fields)
    return struct.pack(">i", len(head) + len(body)) + head + body


class Peer:
    """A server, and one connection to it, which is made anew when the server closes it.

    Args:
        address: HOST:PORT.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.host, self.port = host, int(port)
        self._socket: socket.socket | None = None
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request makes another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, key: int, version: int, fields: Fields) -> Answer:
        """Return the answer to a request. Raises TimeoutError without one."""
        self.send(key, version, fields)
        return self.answer(key, version)

    def send(self, key: int, version: int, fields: Fields) -> None:
        """Send a request, whose answer may take long."""
        self._number += 1
        if self._socket is None:
            self._socket = socket.create_connection((self.host, self.port), ANSWER_SECONDS)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionResetError, BrokenPipeError):
            self._socket.sendall(request_bytes(key, version, self._number, fields))

    def is_answered(self, seconds: float) -> bool:
        """Return whether an answer has begun to come within some time."""
        assert self._socket is not None
        answers = select.poll()
        answers.register(self._socket, select.POLLIN)
        return bool(answers.poll(seconds * 1000))

    def answer(self, key: int, version: int) -> Answer:
        """Return the answer to the request that was sent last. Raises TimeoutError without one."""
        data = self._received()
        if data is None:
            return Answer(None)
        (number,) = struct.unpack_from(">i", data)
        if number != self._number:
            return Answer({}, f"an answer to request {number}, not {self._number}")
        return decoded(key, version, data)

    def _received(self) -> bytes | None:
        with suppress(ConnectionResetError, BrokenPipeError):
            head = self._receive(4)
            if len(head) == 4:
                (size,) = struct.unpack(">i", head)
                found = self._receive(size)
                if len(found) == size:
                    return found
        self.close()
        return None

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        parts = bytearray()
        while len(parts) < size:
            data = self._socket.recv(min(size - len(parts), 1 << 20))
            if not data:
                break
            parts += data
        return bytes(parts)


def decoded(key: int, version: int, data: bytes) -> Answer:
    """The answer in bytes, which must be its shortest encoding: what our declarations do not know is told."""
    message = Api(key).response
    version = version if message.knows(version) else message.first_version
    start = 5 if message.is_flexible(version) and key != API_VERSIONS_KEY else 4
    fields, end = read_message(message, version, data, start)
    if end != len(data):
        return Answer(fields, f"{len(data) - end} bytes behind the answer")
    again = encode(message, version, fields)
    return Answer(fields, "" if again == data[start:] else "bytes that are in no known field")
