"""Notifies systemd of the daemon's state, for units of `Type=notify`.

The protocol is a datagram of lines to the socket in NOTIFY_SOCKET, sd_notify(3); a leading @ means the abstract
name space. Without the variable nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket


def notify(**values: str | int) -> None:
    """Send NAME=value lines: READY=1, STATUS=…, MAINPID=…, STOPPING=1. A missing manager is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address or address[0] not in "/@":
        return
    if address[0] == "@":
        address = "\0" + address[1:]
    message = "\n".join(f"{name}={value}" for name, value in values.items())
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
    ):
        channel.sendto(message.encode("utf-8", "backslashreplace"), address)
