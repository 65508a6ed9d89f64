"""Owners of log dirs, and the check that a path still holds the log dir that a read was planned on."""

from __future__ import annotations

import os

from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, open_source
from kafkafs.table.errors import OtherLogDirError


def check_same(path: str, before: str, source: LogSource) -> None:
    """Check that a log dir is the one that the read was planned on, not another broker's.

    Args:
        path: path of the source.
        before: owner when the read was planned.
        source: source at the path now.

    Raises:
        OtherLogDirError: the owner differs.
    """
    now = owners_of(source)[0]
    if before != now:
        raise OtherLogDirError(path, before, now)


def check_visible(partition: str) -> None:
    """Check that a missing partition was removed, and that the log dir is not missing itself.

    Args:
        partition: path of its folder, or of a records file in it.

    Raises:
        SourceError: the folder above is missing, or is not Kafka's (an empty mount point).
    """
    open_source(os.path.dirname(partition)).close()


def owners_of(source: LogSource) -> tuple[str | None, ...]:
    """Return the owner of each path of a source by meta.properties: cluster, node and directory."""
    return tuple(
        None
        if found is None
        else f"cluster {found.cluster_id}, node {found.node_id}, directory {found.directory_id}"
        for found in source.meta_properties
    )


def owners_by_root(source: LogSource) -> dict[SourceRoot, str | None]:
    """Return the owner of each root of a source; see `owners_of`."""
    return dict(zip(source.roots, owners_of(source), strict=True))
