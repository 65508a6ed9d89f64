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
    """What a mount shows, without a mount. Safe from several threads; the source stays the caller's.

    Args:
        source: where the logs are.
        options: how records look, and bounds of memory.
        status: more files for `.kafkafs/`.
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
        """The tree's own folder; the same node each time."""
        return self._root

    def resolve(self, path: str) -> Node:
        """The node of a path like "orders-0/offset/35", "" for the root; links are not followed.

        Raises:
            NotFound: there is no such path.
            NotADirectory: it goes on below a file or a link.
        """
        node: Node = self._root
        for name in path.split("/") if path else ():
            if not isinstance(node, Directory):
                raise NotADirectory(node.path)
            if not name:
                raise NotFound(path)
            node = node.lookup(name)
        return node

    def follow(self, node: Node) -> Node:
        """The node that a link leads to; any other node is itself. Links of the tree are relative and lead to files.

        Raises:
            NotFound, NotADirectory: the link leads nowhere.
        """
        while isinstance(node, Link):
            node = self.resolve(
                posixpath.normpath(f"{posixpath.dirname(node.path)}/{node.target}").lstrip("/")
            )
        return node
