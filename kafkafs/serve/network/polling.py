"""Busy clients that few threads serve together, when there are too many for a thread each.

The threads wait for all these clients with epoll, and only answer what is in the page cache and needs no Python code.
Any other request comes back to the caller, and each client does after a second.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, NamedTuple

import trio

from engine.files.source_files import SourceFile
from kafkafs.serve.file_slice import FileSlice, Piece
from kafkafs.serve.network.exchange import Exchange
from kafkafs.serve.quick import extension

_SECONDS = 1.0
"""Time after which the event loop has a client again, for limits and statistics."""
_THREADS = min(len(os.sched_getaffinity(0)), 8)


class _Result(NamedTuple):
    left: list[Piece]
    begun: Any
    error: Exception | None


class Polling:
    """Serves clients together; without the extension, none.

    Args:
        most: most clients at the same time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._poller: Any = None
        self._threads: list[Thread] = []
        self._tells_pages: dict[int, bool] = {}

    @property
    def clients(self) -> int:
        """Number of clients that are served now."""
        return 0 if self._poller is None else len(self._poller)

    def can_serve(self, pieces: Sequence[Piece]) -> bool:
        """Return whether an answer has parts of files, all on file systems that tell what is in the page cache."""
        files = [piece.file for piece in pieces if isinstance(piece, FileSlice)]
        return extension is not None and bool(files) and all(map(self._is_told, files))

    def _is_told(self, file: SourceFile) -> bool:
        known = self._tells_pages.get(file.device)
        if known is None:
            known = self._tells_pages[file.device] = _tells_pages(file.fd)
        return known

    async def serve(
        self, exchange: Exchange, pieces: Sequence[Piece], answered: list[tuple[int, int, bool]]
    ) -> tuple[Sequence[Piece], Any]:
        """Send an answer, and answer what follows, until a request is another's; the client's socket does not block.

        Args:
            exchange: of the extension; nobody else may use it meanwhile.
            pieces: an answer that can be served; no buffer is empty.
            answered: receives nanoseconds and bytes of each answer that was made here, and whether it is an error.

        Returns:
            what is left to send, and what was begun of the next request, as `Exchange.run` does.

        Raises:
            ShortFileError: a file ends within its part.
            OSError: the client is gone.
        """
        token = trio.lowlevel.current_trio_token()
        results: list[_Result] = []
        is_done = trio.Event()

        def done(left: list[Piece], begun: object, error: Exception | None) -> None:
            results.append(_Result(left, begun, error))
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(is_done.set)

        poller = self._started()
        member = poller.add(exchange, pieces, answered, done)
        if member is None:
            return pieces, None
        try:
            with trio.move_on_after(_SECONDS):
                await is_done.wait()
        finally:
            if not results:
                left = poller.take_back(member)
                if left is not None:
                    results.append(_Result(left, None, None))
                with trio.CancelScope(shield=True):
                    while not results:
                        await is_done.wait()
        left, begun, error = results[0]
        if error is not None:
            raise error
        return left, begun

    def close(self) -> None:
        """End the threads. No client may be served any more."""
        if self._poller is not None:
            self._poller.close()
            for thread in self._threads:
                thread.join()

    def _started(self) -> Any:  # noqa: ANN401 - of the extension
        if self._poller is None:
            assert extension is not None
            self._poller = extension.Poller(self._most)
            for number in range(_THREADS):
                name = f"poller {number}"
                self._threads.append(Thread(target=self._poller.work, name=name, daemon=True))
                self._threads[-1].start()
        return self._poller


def _tells_pages(fd: int) -> bool:
    """Return whether a read of a file that is not in the page cache can fail at once, as on ext4; tmpfs knows no such reads."""
    try:
        os.preadv(fd, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True
