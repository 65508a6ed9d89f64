"""List a folder's entries by name and kind, without following or opening any."""

from __future__ import annotations

import os
import stat as st
from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from engine.errors import SourceRefusedError


class EntryKind(Enum):
    """Kind of a folder's entry, links not followed; only a source of tiered copies has the last three."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    OTHER = "other"
    FURTHER_COPY = "further copy"
    ENCODED_COPY = "encoded copy"
    UNDONE_COPY = "undone copy"


class SourceEntry(NamedTuple):
    """A name in a source folder; bytes that are not UTF-8 become surrogate escapes."""

    name: str
    kind: EntryKind


def entries_apart(fd: int) -> tuple[list[str], list[SourceEntry]]:
    """Return the names of a folder's regular files, perhaps a million, and its other entries."""
    files, others = [], []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            else:
                others.append(SourceEntry(entry.name, _kind_of(entry)))
    return files, others


def file_names(fd: int) -> Iterator[str]:
    """Yield the names of a folder's regular files one by one, in the file system's order."""
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.name


def _kind_of(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return EntryKind.SYMLINK
    return EntryKind.DIRECTORY if entry.is_dir(follow_symlinks=False) else EntryKind.OTHER


def check_components(relative: str, display: Callable[[str], str]) -> None:
    """Refuse absolute paths, "..", "." and empty components; "" is the root.

    `display` gives the path as shown to people, for the refusal.
    """
    if "\0" in relative:
        raise ValueError("embedded null character in a name")
    for name in relative.split("/") if relative else ():
        if name in ("", ".", ".."):
            raise SourceRefusedError("a name that leads out of the source", display(relative))


_KINDS = {
    st.S_IFDIR: "a directory, not a file",
    st.S_IFLNK: "a symbolic link, not followed",
    st.S_IFIFO: "a FIFO, not read",
    st.S_IFSOCK: "a socket, not read",
    st.S_IFBLK: "a block device, not read",
    st.S_IFCHR: "a character device, not read",
}


def refuse_unless_regular(status: os.stat_result, path: str) -> None:
    """Raise SourceRefusedError unless the file is a regular file."""
    kind = st.S_IFMT(status.st_mode)
    if kind != st.S_IFREG:
        raise SourceRefusedError(_KINDS.get(kind, "not a regular file"), path)
