"""The tree that the daemon serves: opened log dirs, and their usage and statistics."""

from __future__ import annotations

from collections.abc import Sequence

from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.log_directory import open_source
from kafkafs.mount.mounting import MountOptions
from kafkafs.mount.status import DaemonStatus
from kafkafs.tree.node import Directory
from kafkafs.tree.tree import Tree, TreeOptions


class LogTree:
    """Opened log dirs and the tree over them."""

    def __init__(self, paths: Sequence[str], options: MountOptions, status: DaemonStatus) -> None:
        """Open the log dirs. Raises SourceError."""
        self._source = open_source(
            list(paths),
            snapshot=options.snapshot,
            cross_device=options.cross_device,
            budgets=options.budgets,
        )
        self._tree = Tree(
            self._source,
            options=TreeOptions(
                values=options.values, snapshot=options.snapshot, budgets=options.budgets
            ),
            status=status,
        )

    def root(self) -> Directory:
        """Return the folder at the mountpoint."""
        return self._tree.root()

    def usage(self) -> tuple[int, int]:
        """Return (bytes, files) of the log dirs and their folders, one level deep as in Kafka."""
        size = files = 0
        for root in self._source.roots:
            for folder in ["", *_folders(root)]:
                added, count = _folder_usage(root, folder)
                size += added
                files += count
        return size, files

    def rescan(self) -> None:
        """List the source again now."""
        self._source.partitions(max_age=0.0)

    def facts(self) -> dict[str, object]:
        """Return statistics for the status file."""
        context = self._tree.context
        return {
            "partitions": len(self._source.partitions()),
            "brokerPid": self._source.broker_pid,
            "cachedBytes": context.chunks.bytes,
            "cacheHits": context.chunks.hits,
            "cacheMisses": context.chunks.misses,
            "streams": len(context.streams),
        }

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def _folders(root: SourceRoot) -> list[str]:
    return [entry.name for entry in root.list() if entry.kind is EntryKind.DIRECTORY]


def _folder_usage(root: SourceRoot, folder: str) -> tuple[int, int]:
    size = files = 0
    try:
        entries = root.list(folder)
    except OSError:
        return 0, 0  # deleted in the meantime
    for entry in entries:
        if entry.kind is not EntryKind.FILE:
            continue
        try:
            size += root.stat(f"{folder}/{entry.name}" if folder else entry.name).st_size
        except OSError:
            continue
        files += 1
    return size, files
