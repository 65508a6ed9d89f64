"""What systemd, which may have started a daemon, is told of it."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(**values: str | int) -> None:
    """Send NAME=value lines to systemd: READY=1, STATUS=…, MAINPID=…, STOPPING=1. A missing manager is no error.

    The protocol is sd_notify(3), for units of `Type=notify`: a datagram to the socket in NOTIFY_SOCKET, where a
    leading @ means the abstract name space.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or address[0] not in "/@":
        return
    if address[0] == "@":
        address = "\0" + address[1:]
    message = "\n".join(f"{name}={value}" for name, value in values.items())
    with (
        suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
    ):
        channel.sendto(message.encode("utf-8", "backslashreplace"), address)
