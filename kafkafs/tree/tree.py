"""The tree over a source: a root folder, and nodes by path."""

from __future__ import annotations

import posixpath

from engine.log.log_directory import LogSource
from kafkafs.tree.context import Context, StatusProvider, TreeOptions
from kafkafs.tree.errors import NotADirectory, NotFound
from kafkafs.tree.node import Directory, Link, Node
from kafkafs.tree.root.root import RootFolder

__all__ = ["StatusProvider", "Tree", "TreeOptions"]


class Tree:
    """The tree that a mount shows, without a mount. Thread-safe; does not close the source.

    Args:
        source: the logs.
        options: how records look, and bounds of memory.
        status: additional files of `.kafkafs/`.
    """

    def __init__(
        self,
        source: LogSource,
        *,
        options: TreeOptions | None = None,
        status: StatusProvider | None = None,
    ) -> None:
        self.source = source
        self.options = options or TreeOptions()
        self.context = Context(source, self.options, status)
        self._root = RootFolder(self.context)

    def root(self) -> RootFolder:
        """Return the root folder; the same node each time."""
        return self._root

    def resolve(self, path: str) -> Node:
        """Return the node of a path like "orders-0/offset/35", "" for the root. Does not follow a link at its end.

        Raises:
            NotFound: the path does not exist.
            NotADirectory: the path continues below a file.
        """
        node: Node = self._root
        for name in path.split("/") if path else ():
            node = self.follow(node)
            if not isinstance(node, Directory):
                raise NotADirectory(node.path)
            if not name:
                raise NotFound(path)
            node = node.lookup(name)
        return node

    def follow(self, node: Node) -> Node:
        """Follow a link to its node; return any other node itself. Links of the tree are relative.

        Raises:
            NotFound, NotADirectory: the link's target does not exist.
        """
        while isinstance(node, Link):
            node = self.resolve(
                posixpath.normpath(f"{posixpath.dirname(node.path)}/{node.target}").lstrip("/")
            )
        return node
