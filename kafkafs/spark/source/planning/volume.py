"""Check that a task sees the log dirs that the driver planned for.

On a cluster a path can be missing on a host, be an empty mount point, or another broker's volume. None of these
may be taken for deleted records.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import SourceError
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, open_source

_ADVICE = (
    "every executor must see the log dirs under the path that the driver sees: mount them everywhere,"
    " or run the job where they are"
)


class NotVisibleError(RuntimeError):
    """A host does not see the log dirs that the driver saw under a path."""


@dataclass(frozen=True, slots=True)
class Volume:
    """Paths as the driver found them.

    Attributes:
        paths: absolute paths, without wildcards.
        owners: owner of each path by its meta.properties; None if unknown.
    """

    paths: tuple[str, ...]
    owners: tuple[str | None, ...]

    @classmethod
    def of(cls, paths: Sequence[str], source: LogSource) -> Volume:
        """Return the volume of a source that was opened from the paths."""
        return cls(tuple(paths), owners_of(source))

    def open(self) -> LogSource:
        """Open the source on this host.

        Raises:
            NotVisibleError: this host sees another source than the driver.
        """
        try:
            source = open_source(self.paths)
        except SourceError as error:
            raise _not_visible(self.paths, error) from error
        for path, before, here in zip(self.paths, self.owners, owners_of(source), strict=True):
            if before != here:
                source.close()
                raise _another(path, before, here)
        return source


def check_same(path: str, before: str, source: LogSource) -> None:
    """Check that a log dir is the one that the driver saw, not another broker's.

    Args:
        path: path of the source.
        before: owner when the driver looked.
        source: source on this host.

    Raises:
        NotVisibleError: the owner differs.
    """
    here = owners_of(source)[0]
    if before != here:
        raise _another(path, before, here)


def _another(path: str, before: str | None, here: str | None) -> NotVisibleError:
    return NotVisibleError(
        f"host {socket.gethostname()} sees another log dir at {path}: the driver found"
        f" {before or 'no meta.properties'} there, and this host {here or 'none'}; {_ADVICE}"
    )


def check_visible(partition: str) -> None:
    """Check that a missing partition was removed, and that this host does not just miss the log dir.

    Args:
        partition: path of its folder, or of a records file in it.

    Raises:
        NotVisibleError: the folder above is missing, or is not Kafka's (an empty mount point).
    """
    try:
        open_source(os.path.dirname(partition)).close()
    except SourceError as error:
        raise _not_visible([partition], error) from error


def _not_visible(paths: Sequence[str], error: SourceError) -> NotVisibleError:
    where = ", ".join(paths)
    return NotVisibleError(f"host {socket.gethostname()} cannot read {where}: {error}; {_ADVICE}")


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
