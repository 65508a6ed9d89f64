"""Whether a task sees the log dirs that the driver planned for.

On a cluster a path can be missing on a host, an empty mount point, or another broker's volume. Nothing of that
may look like records that were deleted.
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
    """A host does not see what the driver saw under a path, or sees something else there."""


@dataclass(frozen=True, slots=True)
class Volume:
    """Paths as the driver found them.

    Attributes:
        paths: absolute, without wildcards.
        owners: whose each is by its meta.properties, None where nothing says so.
    """

    paths: tuple[str, ...]
    owners: tuple[str | None, ...]

    @classmethod
    def of(cls, paths: Sequence[str], source: LogSource) -> Volume:
        """The volume of a source that was opened from the paths."""
        return cls(tuple(paths), owners_of(source))

    def open(self) -> LogSource:
        """The source as this host sees it.

        Raises:
            NotVisibleError: that is not what the driver saw.
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
    """Tell files that are others by now from those of another broker.

    Args:
        path: of the source.
        before: whose it was when the driver looked.
        source: what this host found there.

    Raises:
        NotVisibleError: it is another's.
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
    """Tell a partition that is gone from a log dir that this host does not see.

    Args:
        partition: the path of its folder, or of a records file in it.

    Raises:
        NotVisibleError: what it lies in is not there, or is nothing of Kafka's: an empty mount point.
    """
    try:
        open_source(os.path.dirname(partition)).close()
    except SourceError as error:
        raise _not_visible([partition], error) from error


def _not_visible(paths: Sequence[str], error: SourceError) -> NotVisibleError:
    where = ", ".join(paths)
    return NotVisibleError(f"host {socket.gethostname()} cannot read {where}: {error}; {_ADVICE}")


def owners_of(source: LogSource) -> tuple[str | None, ...]:
    """Whose each of a source's paths is, by meta.properties: cluster, node and directory."""
    return tuple(
        None
        if found is None
        else f"cluster {found.cluster_id}, node {found.node_id}, directory {found.directory_id}"
        for found in source.meta_properties
    )


def owners_by_root(source: LogSource) -> dict[SourceRoot, str | None]:
    """Whose each root of a source is; see `owners_of`."""
    return dict(zip(source.roots, owners_of(source), strict=True))
