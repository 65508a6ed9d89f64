"""Ask a running server on this machine by its address: its facts, or its end.

The server listens on a socket of the abstract name space, which is no file: the name has the address that clients
connect to. Only the user who started the server, and root, get an answer.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

ANSWER_SECONDS = 10.0
_CREDENTIALS = 12
"""Bytes of process, user and group, each four in the machine's order."""
_WILDCARDS = ("0.0.0.0", "::")
"""Names of a server that listens everywhere."""
_MOST_BYTES = 64 * 1024 * 1024


class NoServerError(Exception):
    """No server of this user listens on the address."""


def socket_name(host: str, port: int) -> str:
    """Return the name of the socket of the server that listens on an address."""
    return f"\0kafkafs-serve/{host}/{port}"


def may_ask(channel: socket.socket) -> bool:
    """Return whether the other side is root or this process's user."""
    return _peer(channel)[1] in (0, os.geteuid())


def ask(host: str, port: int, name: str) -> bytes:
    """Return one of the server's facts: pid, status, statistics, problems or log.

    Raises:
        NoServerError: there is no such server.
        OSError: it does not answer.
    """
    with _connected(host, port) as channel:
        channel.sendall(f"{name}\n".encode())
        parts = bytearray()
        while len(parts) < _MOST_BYTES and (data := channel.recv(1 << 16)):
            parts += data
    return bytes(parts)


def stop(host: str, port: int, seconds: float) -> bool:
    """End the server with SIGTERM; return whether it ended in time.

    Raises:
        NoServerError: there is no such server.
        OSError: it cannot be signalled.
    """
    with _connected(host, port) as channel:
        process = os.pidfd_open(_peer(channel)[0])
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(process)


def _connected(host: str, port: int) -> socket.socket:
    for each in _names(host, port):
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            channel.settimeout(ANSWER_SECONDS)
            channel.connect(socket_name(each, port))
            if may_ask(channel) or os.geteuid() == 0:
                return channel
        except ConnectionRefusedError:
            pass
        except BaseException:
            channel.close()
            raise
        channel.close()
    raise NoServerError(f"no server of this user listens on {host}:{port} on this machine")


def _names(host: str, port: int) -> Iterator[str]:
    """Yield the hosts under which a server may listen that clients reach by a host."""
    yield host
    with suppress(OSError):
        for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            yield str(address[0])
    yield from _WILDCARDS


def _peer(channel: socket.socket) -> tuple[int, int]:
    """Return process and user of the other side."""
    data = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS)
    return int.from_bytes(data[:4], sys.byteorder), int.from_bytes(data[4:8], sys.byteorder)
