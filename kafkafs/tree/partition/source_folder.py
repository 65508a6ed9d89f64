"""`segments/`: the partition's own files, byte for byte."""

from __future__ import annotations

import os
import stat as st
from collections.abc import Iterator

from engine.errors import SourceRefusedError
from engine.files.file_names import FileKind, FileState, parse_file_name
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.units import Offset
from kafkafs.tree.content import FileContent
from kafkafs.tree.errors import NotFound
from kafkafs.tree.listing import entry
from kafkafs.tree.lookups import segment_with_base
from kafkafs.tree.node import (
    MAX_MTIME_NS,
    Attrs,
    Cancel,
    Content,
    Entry,
    File,
    Kind,
    Node,
    inode_number,
)
from kafkafs.tree.partition.partition import Partition, PartitionNode


class SourceFolder(PartitionNode):
    """`segments/`: regular files only; state/leftovers.json lists the rest of the folder."""

    __slots__ = ()

    def lookup(self, name: str) -> Node:
        if not name or "/" in name or "\0" in name or name in (".", ".."):
            raise NotFound(self.child(name))
        file = SourceFileNode(self.child(name), self.partition, name)
        file.attrs()
        return file

    def entries(self, after: int = 0) -> Iterator[Entry]:
        # A generator: the source is listed with the first entry, in the thread that asks for it.
        stream = self.partition.stream_names()
        if stream is None:
            yield from self.partition.slots.files(self, self.partition.view().listing.files, after)
            return
        for cookie, name in stream.behind(after):
            yield entry(self, name, Kind.FILE, cookie)


class SourceFileNode(File):
    """A file of the source. The active .log of a live log ends with its last whole batch.

    In a snapshot it keeps the attributes seen first, and .log files keep their bytes: they are held open.
    """

    __slots__ = ("_name", "partition")

    def __init__(self, path: str, partition: Partition, name: str) -> None:
        super().__init__(path)
        self.partition = partition
        self._name = name

    def attrs(self) -> Attrs:
        partition = self.partition
        known = partition.frozen_attrs.get(self._name)
        if known is not None:
            return known._replace(inode=inode_number(self.path))
        view = partition.view()
        status = self._status(view)
        size = self._shown_size(view, status.st_size, (status.st_dev, status.st_ino))
        mtime = min(max(status.st_mtime_ns, 0), MAX_MTIME_NS)
        attrs = Attrs(
            Kind.FILE,
            status.st_mode & 0o444,
            size,
            mtime,
            inode_number(self.path),
            1,
            status.st_uid,
            status.st_gid,
            True,
            partition.ttl(view),
        )
        if partition.context.source.is_snapshot:
            partition.frozen_attrs[self._name] = attrs
        return attrs

    def open(self, cancel: Cancel | None = None) -> Content:
        partition = self.partition
        view = partition.view()
        segment = self._held(view)
        name = partition.source_path(self._name)
        if segment is not None:
            return FileContent(segment.file, 0, self.attrs().size, view.log.problems, name)
        try:
            file = partition.root.open(name, fresh=True)
        except (FileNotFoundError, SourceRefusedError, ValueError):
            raise NotFound(self.path) from None
        size = self._shown_size(view, file.size(), (file.device, file.inode))
        return FileContent(file, 0, size, view.log.problems, name)

    def _status(self, view: LogView) -> os.stat_result:
        segment = self._held(view)
        if segment is not None:
            return segment.file.stat()
        try:
            status = self.partition.root.stat(self.partition.source_path(self._name))
        except (FileNotFoundError, SourceRefusedError, ValueError):
            raise NotFound(self.path) from None
        if not st.S_ISREG(status.st_mode):
            raise NotFound(self.path, "not a regular file")
        return status

    def _held(self, view: LogView) -> LogSegment | None:
        """Return the segment of this records file in a snapshot. The open segment stays readable."""
        if not self.partition.context.source.is_snapshot:
            return None
        parsed = parse_file_name(self._name)
        if parsed is None or parsed.kind is not FileKind.LOG or parsed.base_offset is None:
            return None
        segment = segment_with_base(view, parsed.base_offset)
        return segment if segment is not None and segment.name == self._name else None

    def _shown_size(self, view: LogView, size: int, identity: tuple[int, int]) -> int:
        """Return the size without a batch that a broker is appending to the active segment."""
        base = self._live_base()
        if base is None or not view.live:
            return size
        active = view.active_segment
        if (
            active is None
            or base > active.base_offset
            or (base == active.base_offset and active.identity != identity)
        ):
            view = self.partition.log.view(0.0)  # the log rolled, or the file was replaced
            active = view.active_segment
        if active is None or base != active.base_offset or active.identity != identity:
            return size
        return min(view.end_position, size)

    def _live_base(self) -> Offset | None:
        """Return the base offset of a live records file; None for other files, and for .deleted, .cleaned or .swap."""
        parsed = parse_file_name(self._name)
        if parsed is None or parsed.kind is not FileKind.LOG or parsed.state is not FileState.LIVE:
            return None
        return parsed.base_offset
