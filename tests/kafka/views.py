"""One way to read a tree for tests, whether it is mounted or not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from kafkafs.tree.errors import NotFound
from kafkafs.tree.node import Directory, File, Link, Node
from kafkafs.tree.tree import Tree

READ_SIZE = 1 << 20


class View(Protocol):
    """Paths are relative to the tree's root; what is not there raises FileNotFoundError."""

    def names(self, path: str) -> list[str]:
        """A folder's names."""

    def read(self, path: str) -> bytes:
        """A whole file; links are followed."""

    def size(self, path: str) -> int:
        """A file's size after it was opened."""

    def link(self, path: str) -> str:
        """The last part of a link's target."""


class TreeView:
    """The tree as a value."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def names(self, path: str) -> list[str]:
        node = self._resolve(path)
        assert isinstance(node, Directory)
        return [entry.name for entry in node.entries(0)]

    def read(self, path: str) -> bytes:
        node = self._follow(path)
        assert isinstance(node, File)
        content = node.open()
        try:
            parts = []
            while part := content.read(sum(map(len, parts)), READ_SIZE):
                parts.append(part)
            return b"".join(parts)
        finally:
            content.close()

    def size(self, path: str) -> int:
        node = self._follow(path)
        assert isinstance(node, File)
        content = node.open()
        try:
            return content.size
        finally:
            content.close()

    def link(self, path: str) -> str:
        node = self._resolve(path)
        assert isinstance(node, Link)
        return os.path.basename(node.target)

    def _resolve(self, path: str) -> Node:
        try:
            return self._tree.resolve(path)
        except NotFound as error:
            raise FileNotFoundError(path) from error

    def _follow(self, path: str) -> Node:
        node = self._resolve(path)
        if isinstance(node, Link):
            return self._follow(os.path.normpath(os.path.join(os.path.dirname(path), node.target)))
        return node


class MountView:
    """The tree through the kernel."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, path: str) -> list[str]:
        return os.listdir(self._root / path)

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def size(self, path: str) -> int:
        with open(self._root / path, "rb") as file:
            return os.fstat(file.fileno()).st_size

    def link(self, path: str) -> str:
        return os.path.basename(os.readlink(self._root / path))
