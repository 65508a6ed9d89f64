"""Views of Kafka log directories: a mount, a command line, and records for Python.

    import kafkafs

    with kafkafs.open("/var/lib/kafka/data") as source:
        print(source["orders", 0][35].value)
        table = source.scan("orders", columns=["key", "timestamp"]).to_arrow()

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
    from kafkafs.api.opened_source import OpenedSource

__all__ = ["__version__", "open"]


def open(  # noqa: A001
    *paths: str | os.PathLike[str], values: str = "auto", snapshot: bool = False
) -> OpenedSource:
    """Open log dirs, a partition's folder, a .log file or tiered copies, read-only.

    Args:
        paths: the source; several log dirs of one broker are one source.
        values: the form of keys and values in the tree's record lines: auto, text, json, base64, hex or none.
        snapshot: look once and hold the files open, so that a running broker changes nothing that is shown.

    Returns:
        Topics, partitions, records and tables of the source, and its tree; a context manager.

    Raises:
        SourceError: the source does not exist or cannot be read.
    """
    from kafkafs.api.opened_source import OpenedSource
    from kafkafs.tree.context import TreeOptions

    return OpenedSource(
        [os.fspath(path) for path in paths], TreeOptions(values=values, snapshot=snapshot)
    )
