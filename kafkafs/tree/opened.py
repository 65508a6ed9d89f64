"""The tree together with its source, as returned by `kafkafs.open`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from engine.log.log_directory import open_source
from kafkafs.tree.context import TreeOptions
from kafkafs.tree.errors import NotADirectory
from kafkafs.tree.node import Directory, File
from kafkafs.tree.tree import Tree


class OpenedTree(Tree):
    """A tree that closes its source; a context manager.

    Args:
        paths: log dirs of one broker, a partition's folder, a .log file, or tiered copies.
        options: how records look, and bounds of memory.

    Raises:
        SourceError: the source does not exist or cannot be read.
    """

    def __init__(self, paths: Sequence[str], options: TreeOptions) -> None:
        source = open_source(paths, snapshot=options.snapshot, budgets=options.budgets)
        super().__init__(source, options=options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def names(self, path: str = "") -> list[str]:
        """Return the names in a folder, as `ls` prints them.

        Raises:
            NotFound, NotADirectory: the path does not exist, or is not a folder.
        """
        node = self.resolve(path)
        if not isinstance(node, Directory):
            raise NotADirectory(path)
        return [entry.name for entry in node.entries()]

    def read(self, path: str) -> bytes:
        """Return all bytes of a file.

        Raises:
            NotFound, NotADirectory: the path does not exist, or continues below a file.
            IsADirectoryError: the path is a folder.
            DamagedFileError, OSError: as `File.open` and `Content.read`.
        """
        node = self.follow(self.resolve(path))
        if not isinstance(node, File):
            raise IsADirectoryError(path)
        return b"".join(node.chunks())

    def close(self) -> None:
        """Close the source; a second call does nothing."""
        self.source.close()
