"""Folders of tiered copies, told by their names and by a glance at what is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from engine.files.file_names import (
    parse_tiered_file_name,
    parse_tiered_folder_name,
    parse_tiered_topic_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
from engine.units import MAX_INT32, TopicPartition

MOST_PEEKS = 64
"""Names of a folder, and folders, that are looked at to tell what a source is."""
_ID_LENGTH = 22
UNKNOWN_PARTITION = -1


class TieredFolder(NamedTuple):
    """The copies of a partition: their folder in the source, whose they are, and the topic's id if known."""

    path: str
    partition: TopicPartition
    topic_id: str | None

    @property
    def name(self) -> str:
        """What the partition is called: a copy under another name keeps that."""
        topic, number = self.partition
        return topic if number == UNKNOWN_PARTITION else str(self.partition)


def folder_called(path: str) -> TieredFolder:
    """A partition's folder of copies by its path; under another name it is a topic of its own."""
    name, above = name_of(path), name_of(os.path.dirname(os.path.abspath(path)))
    local, topic = parse_tiered_folder_name(name), parse_tiered_topic_name(above)
    if local is not None:
        return TieredFolder("", *local)
    if topic is not None and is_number(name):
        return TieredFolder("", TopicPartition(topic[0], int(name)), topic[1])
    return TieredFolder("", TopicPartition(name, UNKNOWN_PARTITION), None)


def candidates(path: str, others: Sequence[SourceEntry]) -> list[str]:
    """The folders in a folder whose names are those of tiered storage, or could be."""
    is_topic = parse_tiered_topic_name(name_of(path)) is not None
    return [
        name
        for name, kind in others
        if kind is EntryKind.DIRECTORY
        and (name[-_ID_LENGTH - 1 : -_ID_LENGTH] == "-" or (is_topic and is_number(name)))
        and (is_topic or parse_tiered_topic_name(name) is not None)
    ]


def folders_of_copies(root: SourceRoot, names: Sequence[str]) -> Iterator[str]:
    """Which of some folders, and of the numbered folders in them, hold copies and can be read."""
    for name in names:
        with suppress(OSError):
            if has_copies(root, name):
                yield name
            elif next(root.iterate_files(name), None) is None:
                below = [f"{name}/{number}" for number in numbered_in(root, name)]
                yield from (folder for folder in below if has_copies(root, folder))


def has_copies(root: SourceRoot, folder: str) -> bool:
    """Whether a folder holds files of tiered storage, as far as its first names tell."""
    names = root.iterate_files(folder)
    return any(is_copy(name) for name in islice(names, MOST_PEEKS))


def numbered_in(root: SourceRoot, folder: str) -> list[str]:
    """The folders in a folder that are called like a partition's number."""
    return [
        entry.name
        for entry in root.list_apart(folder)[1]
        if entry.kind is EntryKind.DIRECTORY and is_number(entry.name)
    ]


def name_of(path: str) -> str:
    """The last component of a path."""
    return os.path.basename(os.path.abspath(path))


def is_copy(name: str) -> bool:
    """Whether a file is called like one of a tiered copy."""
    return parse_tiered_file_name(name) is not None


def is_number(name: str) -> bool:
    """Whether a name is a partition's number."""
    is_decimal = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")
    return is_decimal and len(name) <= 10 and int(name) <= MAX_INT32
