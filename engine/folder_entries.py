"""What a folder holds, by name and kind, without following or opening any of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple


class EntryKind(Enum):
    """What a folder's entry is, without following it; the last two only a source of tiered copies has."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symbolic link"
    OTHER = "other"
    FURTHER_COPY = "further copy"
    ENCODED_COPY = "encoded copy"


class SourceEntry(NamedTuple):
    """A name in a source folder; bytes that are no UTF-8 come as surrogate escapes."""

    name: str
    kind: EntryKind


def entries_apart(fd: int) -> tuple[list[str], list[SourceEntry]]:
    """The names of a folder's regular files, of which there may be a million, and its other entries."""
    files, others = [], []
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            else:
                others.append(SourceEntry(entry.name, _kind_of(entry)))
    return files, others


def file_names(fd: int) -> Iterator[str]:
    """The names of a folder's regular files one by one, in the order the file system has them."""
    with os.scandir(fd) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.name


def _kind_of(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return EntryKind.SYMLINK
    return EntryKind.DIRECTORY if entry.is_dir(follow_symlinks=False) else EntryKind.OTHER
