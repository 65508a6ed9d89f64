"""Protocol of the tree that the daemon serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from engine.log.segment.problems import ProblemEntry
from kafkafs.tree.node import Directory

if TYPE_CHECKING:
    from kafkafs.fuse.source_usage import Usage


class ServedTree(Protocol):
    """An opened tree with usage and statistics. Thread-safe."""

    def root(self) -> Directory:
        """Return the folder at the mountpoint."""

    def usage(self) -> Usage:
        """Return the usage of the source's file systems; may be slow. Raises OSError."""

    def rescan(self) -> None:
        """List the source again now."""

    def facts(self) -> dict[str, object]:
        """Return statistics for the status file, quickly."""

    def problems(self) -> Sequence[ProblemEntry]:
        """Return the problems found so far, as the tree shows them; may be slow. Raises OSError, KafkaStorageError."""

    def close(self) -> None:
        """Close the source."""
