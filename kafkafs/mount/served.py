"""What the daemon serves: a tree, with what is asked about the whole."""

from __future__ import annotations

from typing import Protocol

from kafkafs.tree.node import Directory


class Served(Protocol):
    """A tree over something that was opened; used from several threads."""

    def root(self) -> Directory:
        """The folder at the mountpoint."""

    def usage(self) -> tuple[int, int]:
        """(bytes, files) of the source; may take long."""

    def rescan(self) -> None:
        """Look at the source again now."""

    def facts(self) -> dict[str, object]:
        """Numbers for the status file, quickly had."""

    def close(self) -> None:
        """Let the source go."""
