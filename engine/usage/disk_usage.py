"""Bytes of a source's files and folders, as du counts them: allocated and apparent, hard links once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from engine.files.file_names import FolderState, parse_tiered_folder_name
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.json_facts import facts_of
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource, Unread
from engine.log.partition_log import PartitionLog
from engine.units import TopicPartition
from engine.usage.file_kinds import UsageKind, usage_kind

_BLOCK = 512
"""Unit of st_blocks, whatever the file system's blocks."""
_CHUNK = 4096


@dataclass(slots=True)
class Bytes:
    """Bytes of files: allocated on the disk, and as their sizes say; their number."""

    allocated: int = 0
    apparent: int = 0
    files: int = 0

    def add(self, other: Bytes) -> None:
        """Add other files."""
        self.allocated += other.allocated
        self.apparent += other.apparent
        self.files += other.files

    def facts(self) -> dict[str, int]:
        """Return the numbers for JSON."""
        return facts_of(self, "allocatedBytes=allocated apparentBytes=apparent files")


@dataclass
class FolderUsage:
    """Bytes of one top folder of a log dir, with its own, or of the files beside the folders.

    Attributes:
        path: the folder as shown to people.
        partition: the partition of the folder; None for the log dir itself and for other folders.
        name: name of the partition in its source, of another folder, or "" for the log dir itself.
        state: LOG, or what a broker set the folder aside for.
        kinds: bytes by kind.
    """

    path: str
    partition: TopicPartition | None
    name: str
    state: FolderState = FolderState.LOG
    kinds: dict[UsageKind, Bytes] = field(default_factory=dict)

    @property
    def total(self) -> Bytes:
        """Bytes of all kinds."""
        return summed(self.kinds.values())

    @property
    def apparent(self) -> int:
        """Apparent bytes of all kinds."""
        return sum(each.apparent for each in self.kinds.values())

    def count(self, kind: UsageKind, status: os.stat_result) -> None:
        """Count a file or a folder."""
        known = self.kinds.setdefault(kind, Bytes())
        known.allocated += status.st_blocks * _BLOCK
        known.apparent += status.st_size
        known.files += kind is not UsageKind.FOLDERS


def summed(parts: Iterable[Bytes]) -> Bytes:
    """Return the sum of several."""
    total = Bytes()
    for each in parts:
        total.add(each)
    return total


class BytesOnDisk:
    """Counts what a source has on its disk.

    Attributes:
        folders: bytes by folder, in the order of the source.
        unread: folders that could not be listed, and entries on another file system; they are not counted.

    Args:
        source: the source.
        advance: called with the bytes of files that were counted since the call before.
    """

    def __init__(
        self, source: LogSource, advance: Callable[[int], object] = lambda _: None
    ) -> None:
        self.folders: list[FolderUsage] = []
        self.unread: list[Unread] = []
        self._linked: set[tuple[int, int]] = set()
        self._advance = advance
        logs = {(log.root.path, log.folder): log for log in source.partitions().values()}
        for root in source.roots:
            whole = logs.get((root.path, ""))
            if whole is not None and whole.only is not None:
                self._count_file(whole, whole.only)
                continue
            # Roots of tiered copies show other names than the disk has.
            plain = SourceRoot(root.path)
            try:
                self._count_root(plain, logs)
            finally:
                plain.close()

    @cached_property
    def total(self) -> Bytes:
        """Bytes of all folders: what du prints."""
        return summed(each.total for each in self.folders)

    def _count_root(self, root: SourceRoot, logs: dict[tuple[str, str], PartitionLog]) -> None:
        whole = logs.get((root.path, ""))
        own = self._folder(root, "", whole, "")
        self.folders.append(own)
        own.count(UsageKind.FOLDERS, root.stat())
        self._count_in(root, "", own, None if whole is not None else logs)

    def _count_file(self, log: PartitionLog, name: str) -> None:
        """Count the one file of a source."""
        usage = FolderUsage(log.root.display(name), log.topic_partition, log.name)
        self.folders.append(usage)
        usage.count(UsageKind.LOG, log.root.stat(name))

    def _folder(
        self, root: SourceRoot, folder: str, log: PartitionLog | None, name: str
    ) -> FolderUsage:
        path = root.display(folder)
        if log is None:
            tiered = parse_tiered_folder_name(name)
            return FolderUsage(path, None if tiered is None else tiered[0], name)
        return FolderUsage(path, log.topic_partition, log.name, state_of(log))

    def _count_in(
        self,
        root: SourceRoot,
        top: str,
        usage: FolderUsage,
        logs: dict[tuple[str, str], PartitionLog] | None,
    ) -> None:
        """Count what is in a folder. With `logs`, each folder in it is counted apart."""
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            try:
                names, others = root.list_apart(folder)
                self._count_files(root, folder, names, usage)
                links = [each.name for each in others if each.kind is not EntryKind.DIRECTORY]
                self._count_files(root, folder, links, usage)
            except FileNotFoundError:  # deleted since
                continue
            except OSError as error:
                self.unread.append(Unread.of(root.display(folder), error))
                continue
            for name in sorted(each.name for each in others if each.kind is EntryKind.DIRECTORY):
                path = f"{folder}/{name}" if folder else name
                inner = usage
                if logs is not None:
                    inner = self._folder(root, path, logs.get((root.path, path)), name)
                if not self._count_folder(root, path, inner):
                    continue
                if logs is None:
                    waiting.append(path)
                else:
                    self.folders.append(inner)
                    self._count_in(root, path, inner, None)

    def _count_folder(self, root: SourceRoot, path: str, usage: FolderUsage) -> bool:
        """Count a folder itself; return whether it is there."""
        try:
            usage.count(UsageKind.FOLDERS, root.stat(path))
        except FileNotFoundError:
            return False
        except OSError as error:
            self.unread.append(Unread.of(root.display(path), error))
            return False
        return True

    def _count_files(
        self, root: SourceRoot, folder: str, names: Sequence[str], usage: FolderUsage
    ) -> None:
        for start in range(0, len(names), _CHUNK):
            part = names[start : start + _CHUNK]
            before = usage.apparent
            for name, status in root.stat_files(folder, part):
                if status.st_nlink > 1:
                    link = status.st_dev, status.st_ino
                    if link in self._linked:
                        continue
                    self._linked.add(link)
                usage.count(usage_kind(folder, name), status)
            self._advance(usage.apparent - before)
