"""The files of log dirs: those that an erase copies or writes anew, and those that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.files.file_names import (
    FileKind,
    FileName,
    FileState,
    log_file_name,
    parse_file_name,
)
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceFile, SourceRoot
from engine.log.leftover_logs import state_of
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.topics.topic_names import CLUSTER_METADATA

_NOT_COPIED = (FileState.TEMPORARY, FileState.PARTIAL)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of a log dir.

    Attributes:
        root: the log dir.
        target: name of the new log dir in the target.
        folder, name: the file's folder in the log dir, "" for itself, and its name.
        kind: its parsed name; None for a name that Kafka does not write.
        log: the partition of its folder; None without one.
    """

    root: SourceRoot
    target: str
    folder: str
    name: str
    kind: FileName | None
    log: PartitionLog | None

    @property
    def relative(self) -> str:
        """Path in the log dir."""
        return f"{self.folder}/{self.name}" if self.folder else self.name

    @property
    def path(self) -> str:
        """Path for people."""
        return self.root.display(self.relative)

    @property
    def new_path(self) -> str:
        """Path of the copy in the target."""
        return f"{self.target}/{self.relative}"

    @property
    def is_records(self) -> bool:
        """Whether it is a records file, of a log or set aside."""
        return self.log is not None and self.kind is not None and self.kind.kind is FileKind.LOG

    @property
    def is_erasable(self) -> bool:
        """Whether records of it may be chosen: the metadata of a cluster stays whole."""
        return (
            self.is_records
            and self.log is not None
            and self.log.topic_partition.topic != CLUSTER_METADATA
        )

    @property
    def aside(self) -> str:
        """How a broker set the file or its folder aside, such as `.deleted` or `-stray`; "" if it did not."""
        folder = "" if self.log is None else state_of(self.log).value
        return folder + ("" if self.kind is None else self.kind.state.value)

    def open(self) -> SourceFile:
        """Return the file, newly opened. Raises OSError, SourceRefusedError."""
        return self.root.open_fresh(self.relative)

    def shown(self) -> tuple[LogView, LogSegment]:
        """Return a view that has the records, and their segment. Raises OSError."""
        assert self.log is not None
        assert self.kind is not None
        base = self.kind.base_offset
        assert base is not None
        if self.kind.state is FileState.LIVE:
            view = self.log.view()
            segment = view.segments.get(base)
            if segment is not None:
                return view, segment
            view = self.log.alone(log_file_name(base)).view()
        else:
            view = self.log.file_apart(self.name).view()
        return view, view.segment_at(0)


def files_of(source: LogSource, target: str) -> Iterator[FoundFile]:
    """Yield the files of a log dir and of its partitions, those without a known name too.

    Args:
        source: a source of one log dir.
        target: name of the new log dir.

    Raises:
        OSError: a folder cannot be listed.
    """
    [root] = source.roots
    logs = {log.folder: log for log in source.partitions().values()}
    for folder in ("", *sorted(logs)):
        for entry in sorted(root.list(folder), key=lambda each: each.name):
            kind = parse_file_name(entry.name) if entry.kind is EntryKind.FILE else None
            if folder or entry.name not in logs:
                yield FoundFile(root, target, folder, entry.name, kind, logs.get(folder))


def why_left_out(file: FoundFile) -> str | None:
    """Return why a file is not copied; None if it is."""
    if file.kind is None:
        return "Kafka does not write such a name"
    if file.kind.kind is FileKind.LOCK or file.kind.state in _NOT_COPIED:
        return "it is no part of a log dir at rest"
    return None
