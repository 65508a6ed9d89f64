"""Folders of tiered copies, recognized by their names and by the first names in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from engine.budgets import DEFAULT_BUDGETS
from engine.errors import DamagedFileError
from engine.files.file_names import (
    FileKind,
    FolderState,
    folder_name,
    parse_tiered_file_name,
    parse_tiered_folder_name,
    parse_tiered_topic_name,
)
from engine.files.folder_entries import EntryKind, SourceEntry
from engine.files.source_files import SourceRoot
from engine.log.tiered.manifest import MANIFEST, parse_manifest
from engine.record.batch_frame import HEADER
from engine.units import MAX_INT32, TopicPartition

MOST_PEEKS = 64
"""Largest number of names, and of folders, to look at to recognize a source."""
_ID_LENGTH = 22
_MAX_TIMESTAMP = HEADER.position_of("max_timestamp")


class TieredFolder(NamedTuple):
    """The copies of a partition: their folder in the source, the partition, and the topic's id if known."""

    path: str
    partition: TopicPartition
    topic_id: str | None

    @property
    def name(self) -> str:
        """Name of the partition."""
        return str(self.partition)


def folder_called(path: str) -> TieredFolder:
    """Return a partition's folder of copies by its path; another name is that of a topic."""
    name, above = name_of(path), name_of(os.path.dirname(os.path.abspath(path)))
    local, topic = parse_tiered_folder_name(name), parse_tiered_topic_name(above)
    if local is not None:
        return TieredFolder("", *local)
    if topic is not None and is_number(name):
        return TieredFolder("", TopicPartition(topic[0], int(name)), topic[1])
    # Imported here: most folders have names of Kafka's.
    from engine.log.given_names import partition_called

    return TieredFolder("", partition_called(name), None)


def candidates(path: str, others: Sequence[SourceEntry]) -> list[str]:
    """Return the folders with names that tiered storage may have given."""
    is_topic = parse_tiered_topic_name(name_of(path)) is not None
    return [
        name
        for name, kind in others
        if kind is EntryKind.DIRECTORY
        and (name[-_ID_LENGTH - 1 : -_ID_LENGTH] == "-" or (is_topic and is_number(name)))
        and (is_topic or parse_tiered_topic_name(name) is not None)
    ]


def folders_of_copies(root: SourceRoot, names: Sequence[str]) -> Iterator[str]:
    """Yield those of some folders, and of the numbered folders in them, that hold copies and can be read."""
    for name in names:
        with suppress(OSError):
            if has_copies(root, name):
                yield name
            elif next(root.iterate_files(name), None) is None:
                below = [f"{name}/{number}" for number in numbered_in(root, name)]
                yield from (folder for folder in below if has_copies(root, folder))


def has_copies(root: SourceRoot, folder: str) -> bool:
    """Return whether the first names of a folder are those of tiered copies."""
    names = root.iterate_files(folder)
    return any(is_copy(name) for name in islice(names, MOST_PEEKS))


def numbered_in(root: SourceRoot, folder: str) -> list[str]:
    """Return the folders with a partition's number as their name."""
    return [
        entry.name
        for entry in root.list_apart(folder)[1]
        if entry.kind is EntryKind.DIRECTORY and is_number(entry.name)
    ]


def name_of(path: str) -> str:
    """Return the last component of a path."""
    return os.path.basename(os.path.abspath(path))


def is_copy(name: str) -> bool:
    """Return whether a name is that of a file of a tiered copy."""
    return parse_tiered_file_name(name) is not None


def is_number(name: str) -> bool:
    """Return whether a name is a partition's number."""
    is_decimal = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")
    return is_decimal and len(name) <= 10 and int(name) <= MAX_INT32


# The partitions of a source


class TieredEntries(NamedTuple):
    """The entries of a folder of tiered copies.

    Attributes:
        files: names of regular files.
        others: entries that are not folders of copies.
        folders: the partitions' folders by the names they are shown under.
    """

    files: Sequence[str]
    others: Sequence[SourceEntry]
    folders: Mapping[str, TieredFolder]


def list_partitions(root: SourceRoot) -> TieredEntries:
    """List a folder of tiered copies. Raises OSError."""
    files, others = root.list_apart()
    found: dict[TopicPartition, list[TieredFolder]] = {}
    rest = []
    for entry in others:
        is_folder = entry.kind is EntryKind.DIRECTORY
        folders = list(_folders_in(root, entry.name)) if is_folder else []
        for folder in folders:
            found.setdefault(folder.partition, []).append(folder)
        if not folders:
            rest.append(entry)
    return TieredEntries(files, rest, dict(_named(root, found)))


def _folders_in(root: SourceRoot, name: str) -> Iterator[TieredFolder]:
    """Yield the partitions with copies in a folder: one, all of a topic, or none."""
    topic = parse_tiered_topic_name(name_of(root.path))
    if topic is not None and is_number(name):
        called = stated_topic(root, name, topic[0])
        yield TieredFolder(name, TopicPartition(called, int(name)), topic[1])
        return
    local, topic = parse_tiered_folder_name(name), parse_tiered_topic_name(name)
    if local is not None and has_copies(root, name):
        yield TieredFolder(name, *local)
        return
    if topic is None:
        return
    numbers = numbered_in(root, name)
    called = stated_topic(root, f"{name}/{numbers[0]}", topic[0]) if numbers else topic[0]
    for number in numbers:
        yield TieredFolder(f"{name}/{number}", TopicPartition(called, int(number)), topic[1])
    if local is not None and not numbers:
        yield TieredFolder(name, *local)


def stated_topic(root: SourceRoot, folder: str, name: str) -> str:
    """Return the topic that a manifest in a folder states, if the name ends with it: keys may have a prefix before it."""
    with suppress(OSError, DamagedFileError):
        files = (each for each in root.iterate_files(folder) if each.endswith(MANIFEST))
        for file in islice(files, 1):
            path = f"{folder}/{file}" if folder else file
            data = root.read(path, limit=DEFAULT_BUDGETS.checkpoint_bytes)
            topic = parse_manifest(data, path=path).partition.topic
            return topic if topic and name.endswith(topic) else name
    return name


def _named(
    root: SourceRoot, found: Mapping[TopicPartition, list[TieredFolder]]
) -> Iterator[tuple[str, TieredFolder]]:
    """Yield folders with their names: of topics of one name the one with the newest records is the log, others are stray."""
    for partition, folders in found.items():
        if len(folders) > 1:
            folders.sort(key=lambda folder: _newest_timestamp(root, folder))
        yield str(partition), folders.pop()
        for older in folders:
            yield folder_name(partition, FolderState.STRAY, older.topic_id), older


def _newest_timestamp(root: SourceRoot, folder: TieredFolder) -> int:
    """Return the largest timestamp of the last segment's first batch, -1 without one."""
    try:
        files, _ = root.list_apart(folder.path)
        newest = max(name for name in files if is_copy(name) and name.endswith(FileKind.LOG.value))
        with root.open_fresh(f"{folder.path}/{newest}") as file:
            return int.from_bytes(file.read_at(_MAX_TIMESTAMP, 8), "big", signed=True)
    except (OSError, ValueError):
        return -1
