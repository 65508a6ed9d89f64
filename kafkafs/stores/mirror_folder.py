"""The private folder of a mirror: the tree of the objects as empty files with their sizes and times, and their bytes beside.

`.objects` has, for each object by number, the inode of its file in the tree and the number of its first piece.
`.pieces` has a byte for each piece of each object, 1 if it is in the private file `.bytes/NUMBER`.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress

from engine.files.stores import MARK
from kafkafs.stores.object_client import ListedObject

PIECE = 64 * 1024
"""Bytes that are fetched at least."""
OBJECTS, PIECES, BYTES, SOCKET = ".objects", ".pieces", ".bytes", ".socket"
_LONGEST_NAME = 255


def pieces_of(size: int) -> int:
    """Return the number of pieces of an object."""
    return -(-size // PIECE)


def path_of(key: str) -> str | None:
    """Return the path of a key in the tree; None for a key that no file can have."""
    names = key.split("/")
    is_name = all(
        name not in ("", ".", "..") and len(os.fsencode(name)) <= _LONGEST_NAME for name in names
    )
    return key if is_name and "\0" not in key else None


def make_tree(
    inside: str, top: str, objects: Iterable[ListedObject]
) -> tuple[list[ListedObject], int]:
    """Make the files of the objects below a folder; return the objects in the order of their numbers, and how many have no file.

    Raises OSError.
    """
    made: list[ListedObject] = []
    table = array("Q")
    folders: set[str] = set()
    left_out = piece = 0
    for each in objects:
        path = path_of(each.key)
        inode = None if path is None else _make_file(f"{top}/{path}", each, folders)
        if inode is None:
            left_out += not each.key.endswith("/")
            continue
        table.extend((inode, piece))
        piece += pieces_of(each.size)
        made.append(each)
    with open(f"{inside}/{PIECES}", "xb") as file:
        file.truncate(piece)
    with open(f"{inside}/{OBJECTS}", "xb") as file:
        table.tofile(file)
    os.mkdir(f"{inside}/{BYTES}")
    return made, left_out


def _make_file(path: str, found: ListedObject, folders: set[str]) -> int | None:
    """Make the file of an object; return its inode, None if a prefix and an object have one name."""
    folder = path.rpartition("/")[0]
    try:
        if folder not in folders:
            os.makedirs(folder, exist_ok=True)
            folders.add(folder)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except (FileExistsError, NotADirectoryError):
        return None
    try:
        os.ftruncate(fd, found.size)
        os.fchmod(fd, MARK | 0o444)
        os.utime(fd, ns=(found.modified, found.modified))
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def in_order(objects: Iterable[ListedObject]) -> Sequence[ListedObject]:
    """Return the objects in the order of their keys, each once."""
    return sorted({each.key: each for each in objects}.values())


class Pieces:
    """Which pieces of the objects are there, for the process that fetches them."""

    def __init__(self, inside: str, objects: Sequence[ListedObject]) -> None:
        self._path = f"{inside}/{BYTES}"
        self._fd = os.open(f"{inside}/{PIECES}", os.O_RDWR | os.O_CLOEXEC)
        self.there = bytearray(os.fstat(self._fd).st_size)
        self.starts = array("Q")
        start = 0
        for each in objects:
            self.starts.append(start)
            start += pieces_of(each.size)
        self._sizes = [each.size for each in objects]

    def path(self, number: int) -> str:
        """Return the path of the private file of an object."""
        return f"{self._path}/{number}"

    def make(self, number: int) -> None:
        """Make the private file of an object, if it is not there. Raises OSError."""
        with suppress(FileExistsError), open(self.path(number), "xb") as file:
            file.truncate(self._sizes[number])

    def write(self, number: int, position: int, data: memoryview) -> None:
        """Write whole pieces, then note that they are there. Raises OSError."""
        fd = os.open(self.path(number), os.O_WRONLY | os.O_CLOEXEC)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done:], position + done)
        finally:
            os.close(fd)
        first = self.starts[number] + position // PIECE
        marks = b"\1" * pieces_of(len(data))
        self.there[first : first + len(marks)] = marks
        os.pwrite(self._fd, marks, first)

    def forget(self, number: int) -> None:
        """Note that nothing of an object is there. Raises OSError."""
        first, count = self.starts[number], pieces_of(self._sizes[number])
        self.there[first : first + count] = bytes(count)
        os.pwrite(self._fd, bytes(count), first)
