"""Views of Kafka log directories: a mount, a command line, and the tree for Python.

    import kafkafs

    with kafkafs.open("/var/lib/kafka/data") as tree:
        print(tree.read("orders-0/offset/35"))

The names in `__all__` are for users of the library; every other name may change at any time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import engine

if getattr(engine, "__distribution__", None) != "kafkafs":
    msg = (
        f"the package 'engine' found at {getattr(engine, '__file__', '?')} is not kafkafs's own; "
        "run the `kafkafs` command, or `python -P -m kafkafs`, from another folder"
    )
    raise ImportError(msg)

from engine.version import __version__

if TYPE_CHECKING:
    from kafkafs.tree.opened import OpenedTree

__all__ = ["__version__", "open"]


def open(*paths: str | os.PathLike[str], values: str = "auto") -> OpenedTree:  # noqa: A001
    """Open log dirs, a partition's folder, a .log file or tiered copies as a tree, read-only.

    Args:
        paths: the source; several log dirs of one broker are one source.
        values: the form of keys and values in record lines: auto, text, json, base64, hex or none.

    Returns:
        The tree that a mount of the source shows; a context manager.

    Raises:
        SourceError: the source does not exist or cannot be read.
    """
    from kafkafs.tree.context import TreeOptions
    from kafkafs.tree.opened import OpenedTree

    return OpenedTree([os.fspath(path) for path in paths], TreeOptions(values=values))
