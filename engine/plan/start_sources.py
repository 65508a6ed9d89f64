"""Open the log dirs of a planned start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from engine.errors import SourceError
from engine.files.folder_entries import EntryKind
from engine.files.source_files import SourceRoot
from engine.log.source_identity import identify, readable, refuse_tiered
from engine.plan.loading.broker_failure import BrokerFailure
from engine.plan.log_dir_plan import parse_log_folder


class StartSources(NamedTuple):
    """Open log dirs; `only` is the name of the one folder to load, None for all."""

    log_dirs: list[SourceRoot]
    only: str | None = None

    def close(self) -> None:
        """Close the log dirs."""
        for root in self.log_dirs:
            root.close()


def open_log_dirs(paths: Sequence[str]) -> StartSources:
    """Open log dirs, or the log dir of one partition's folder.

    Raises:
        SourceError: a path cannot be opened, or is neither a log dir nor a partition's folder.
        OSError: the folder above a partition's cannot be opened.
    """
    for path in paths:
        with readable(path):
            if not os.path.isdir(path):
                identify(path, open_files=1, cross_device=False).close()
                raise SourceError(
                    f"{path} is a file, and a broker starts on log dirs",
                    hint="kafkafs rebuild makes a log dir of a .log file",
                )
            refuse_tiered(path)
    if len(paths) == 1 and _is_partition_folder(paths[0]):
        parent, only = os.path.split(os.path.abspath(paths[0]))
        return StartSources([SourceRoot(parent)], only)
    sources = StartSources([])
    try:
        for path in paths:
            with readable(path):
                root = SourceRoot(path)
                sources.log_dirs.append(root)
                if len(paths) == 1 or root.list():
                    _check_log_dir(path)
    except BaseException:
        sources.close()
        raise
    return sources


def _check_log_dir(path: str) -> None:
    """Raise SourceError for a path that does not look like a log dir."""
    found = identify(path, open_files=1, cross_device=False)
    found.root.close()
    if found.fixed is not None:
        raise SourceError(
            f"{path} is one log, and its folder is not named like a partition's",
            hint="a broker loads the folders of a log dir that are named like orders-0; kafkafs rebuild makes one of it",
        )


def _is_partition_folder(path: str) -> bool:
    try:
        parse_log_folder(os.path.basename(os.path.abspath(path)))
    except BrokerFailure:
        return False
    with readable(path), SourceRoot(path) as root:
        entries = root.list()
    is_log_dir = any(entry.kind is EntryKind.DIRECTORY for entry in entries)
    return not is_log_dir or any(entry.name.endswith(".log") for entry in entries)
