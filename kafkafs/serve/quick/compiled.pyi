"""The extension of the quick way of Fetch."""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from engine.files.source_files import SourceFile
from engine.log.segment.open_segments import SegmentFiles
from engine.topics.message.schema import Message
from engine.units import Offset, Position
from kafkafs.serve.file_slice import Piece
from kafkafs.serve.network.exchange import Exchange as Exchange  # the compiled one has its methods

class ReadySegment:
    """A proven part of a segment.

    Args:
        files: the files of the segment; a request is left to Python once they are closed.
        file: the records file that is proven.
        next_base: base offset of the next segment.
        end: end of the segment's batches.
        good: start and end of the proven part.
        largest: limit of a batch's size.
        is_committed: whether a consumer of committed records may have all of the part, without aborted transactions.
    """

    def __init__(
        self,
        files: SegmentFiles,
        file: ref[SourceFile],
        next_base: Offset,
        end: Position,
        good: tuple[Position, Position],
        largest: int,
        is_committed: bool,
    ) -> None: ...

class ReadyPartition:
    """What is known of a partition; safe from several threads.

    Args:
        until: time on the monotonic clock from which Python has to look again: at the next request, and at all of them
            after another 50 ms.
        start, end: log start and log end.
    """

    def __init__(self, until: float, start: Offset, end: Offset) -> None: ...
    def know_epoch(self, epoch: int) -> None:
        """Accept requests that state a leader epoch."""

    def add(self, segment: ReadySegment, stable: Offset) -> None:
        """Add a segment, or replace what was known of it; `stable` is the last stable offset to tell."""

class Scratch:
    """Memory for headers of batches, for one thread at a time.

    Args:
        may_read: whether to wait for a disk; otherwise a request that needs one is left to Python.
    """

    def __init__(self, *, may_read: bool = True) -> None: ...

class QuickFetches:
    """Answers Fetch requests of which all is known; safe from several threads.

    Args:
        request, response: declarations of the messages.
        session_of: returns the session of a request with its changes, or the error.
        by_name, by_id: looks at partitions by name or id of the topic, and by number, each with a `ready`.
        most_elements: limit of the elements of a request's arrays together.
        most_bytes: limit of the bytes of an answer.
        most_repeats: largest array whose elements need not be compared with each other.
    """

    def __init__(
        self,
        request: Message,
        response: Message,
        session_of: Callable[..., Any],
        by_name: dict[Any, Any],
        by_id: dict[Any, Any],
        *,
        most_elements: int,
        most_bytes: int,
        most_repeats: int,
    ) -> None: ...
    def answer(self, frame: bytes, scratch: Scratch) -> tuple[list[Piece] | None, Any]:
        """Return the pieces of the answer to a request; None for a request that is left to Python.

        With None comes what `session_of` returned, if it was called: it must not be called again.

        Args:
            frame: the request, without its length.
            scratch: memory of the thread.
        """

class Member:
    """A client of a poller."""

class Poller:
    """Serves many clients with few threads; safe from several threads.

    Args:
        most: most clients at the same time.

    Raises:
        OSError: no descriptors are left.
    """

    def __init__(self, most: int) -> None: ...
    def __len__(self) -> int:
        """Return the number of clients."""

    def add(
        self,
        exchange: Exchange,
        pieces: Sequence[Piece],
        answered: list[tuple[int, int, bool]],
        done: Callable[[list[Piece], Any, Exception | None], None],
    ) -> Member | None:
        """Serve a client until a request is left to Python; return None if there is no room for it.

        Args:
            exchange: the client's.
            pieces: an answer to send.
            answered: receives nanoseconds and bytes of each answer that is made here, and whether it is an error.
            done: called by a thread with what is left to send, what was begun of the next request, and the error.
        """

    def take_back(self, member: Member) -> list[Piece] | None:
        """Stop serving a client; return what is left to send, or None if `done` is called, or was."""

    def work(self) -> None:
        """Serve clients in this thread until the poller is closed."""

    def close(self) -> None:
        """End the threads."""
