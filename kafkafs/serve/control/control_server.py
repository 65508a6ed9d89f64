"""Tell the operator who asks over the server's own socket."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping

import trio

from kafkafs.serve.control.control_client import ANSWER_SECONDS, may_ask, socket_name

logger = logging.getLogger(__name__)

_LONGEST_NAME = 64


def control_listener(host: str, port: int) -> trio.SocketListener:
    """Return a listener on the socket of a server's address.

    Raises:
        OSError: another process has the name.
    """
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        channel.bind(socket_name(host, port))
        channel.listen()
    except BaseException:
        channel.close()
        raise
    return trio.SocketListener(trio.socket.from_stdlib_socket(channel))


class ControlServer:
    """Answers those who ask.

    Args:
        makers: what can be asked for, by name.
    """

    def __init__(self, makers: Mapping[str, Callable[[], bytes]]) -> None:
        self._makers = makers

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one question."""
        if not may_ask(stream.socket):  # type: ignore[arg-type]  # it has getsockopt
            return
        with trio.move_on_after(ANSWER_SECONDS):
            try:
                name = bytearray()
                while not name.endswith(b"\n") and len(name) < _LONGEST_NAME:
                    data = await stream.receive_some(_LONGEST_NAME)
                    if not data:
                        return
                    name += data
                maker = self._makers.get(name.strip().decode("ascii", "replace"))
                if maker is not None:
                    await stream.send_all(await trio.to_thread.run_sync(maker))
            except trio.BrokenResourceError:
                return
            except Exception as error:
                logger.exception("a question of the operator: %s", error)
