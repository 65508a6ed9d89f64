"""Files of a source that are objects in a store: their bytes are fetched into a private file before a call reads them.

A mirror is a private folder with the tree of a store's objects: each file has the size and the time of its object, and
no bytes. Who opens a file of it gets a `StoredFile`, which asks the mirror for the bytes of each read first. A hole is
never read: `fd` of such a file fetches all of it, `reach` and the methods that read fetch what they state.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from engine.errors import SourceRefusedError

MARK = 0o5000
"""Bits of the mode of a mirror's files, which no broker's file has: who does not know the mirror must not read zeros."""


class StoredBytes(Protocol):
    """The bytes of one object, as of its etag, in a private file."""

    descriptor: int

    def fetch(self, start: int, end: int) -> None:
        """Have [start, end) in the private file. Raises OSError with an errno of `STORE_FAILURES`."""

    def missing(self, start: int, end: int) -> tuple[int, int]:
        """Return start and end of the first bytes that are not there of those around [start, end)."""


class MarkedFile(Protocol):
    """An open file of a mirror, which has no bytes."""

    path: str
    opened_as: os.stat_result

    def close(self) -> None:
        """Close it."""


class MirroredRoot(Protocol):
    """A source below a mirror's folder."""

    local: str

    def free_descriptors(self) -> None:
        """Close what is kept open for reuse."""


File = TypeVar("File", bound=MarkedFile)


class Mirror(Protocol):
    """A folder that shows a store.

    Attributes:
        folder: path of the folder, absolute.
        url: URL of the objects in it.
    """

    folder: str
    url: str

    def opened(self, root: MirroredRoot, file: File) -> File:
        """Return a file with the bytes of the object, in place of one of the folder. Raises OSError."""


class Stores:
    """The mirrors of this process; processes that are forked from it share them.

    Attributes:
        mirrors: the mirrors.
        opener: makes the mirror of a URL, and returns the path in it.
    """

    def __init__(self) -> None:
        self.mirrors: list[Mirror] = []
        self.opener: Callable[[str], str] | None = None

    def local(self, path: str) -> str:
        """Return a path, in place of a store's URL that of its mirror. Raises SourceError."""
        return self.opener(path) if self.opener is not None and "://" in path else path

    def shown(self, text: str) -> str:
        """Return a text with URLs in place of paths of mirrors."""
        for mirror in self.mirrors:
            text = text.replace(mirror.folder, mirror.url)
        return text

    def opened(self, root: MirroredRoot, file: File) -> File:
        """Return, in place of a marked file, one with the bytes of its object. Raises OSError, SourceRefusedError."""
        try:
            for mirror in self.mirrors:
                if f"{root.local}/".startswith(f"{mirror.folder}/"):
                    return mirror.opened(root, file)
        finally:
            file.close()
        raise SourceRefusedError("a private file of another process, without bytes", file.path)


STORES = Stores()
