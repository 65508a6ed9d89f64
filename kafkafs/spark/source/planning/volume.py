"""Check that a task sees the log dirs that the driver planned for.

On a cluster a path can be missing on a host, be an empty mount point, or another broker's volume. None of these
may be taken for deleted records.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass

from engine.cut.opening import cut_of
from engine.cut.sent_cut import SentCut
from engine.errors import SourceError
from engine.files.stores import STORES
from engine.log.log_directory import LogSource
from engine.replicas.cluster_source import open_cluster
from kafkafs.table.splits.log_dir_owners import owners_of

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
        cut: the ends of the logs, if the source is shown as of a moment.
    """

    paths: tuple[str, ...]
    owners: tuple[str | None, ...]
    cut: SentCut | None = None

    @classmethod
    def of(cls, paths: Sequence[str], source: LogSource) -> Volume:
        """Return the volume of a source that was opened from the paths."""
        cut = cut_of(source)
        sent = None if cut is None else SentCut(source, cut)
        return cls(tuple(map(STORES.shown, paths)), owners_of(source), sent)

    def open(self) -> LogSource:
        """Open the source on this host.

        Raises:
            NotVisibleError: this host sees another source than the driver.
        """
        try:
            source = open_cluster(self.paths, cut=self.cut)
        except SourceError as error:
            raise not_visible(self.paths, error) from error
        for path, before, here in zip(self.paths, self.owners, owners_of(source), strict=True):
            if before != here:
                source.close()
                raise another_log_dir(path, before, here)
        return source


def another_log_dir(path: str, before: str | None, here: str | None) -> NotVisibleError:
    """Return the error of a path with another owner than the driver found."""
    return NotVisibleError(
        f"host {socket.gethostname()} sees another log dir at {path}: the driver found"
        f" {before or 'no meta.properties'} there, and this host {here or 'none'}; {_ADVICE}"
    )


def not_visible(paths: Sequence[str], error: SourceError) -> NotVisibleError:
    """Return the error of paths that this host cannot open."""
    where = ", ".join(paths)
    return NotVisibleError(f"host {socket.gethostname()} cannot read {where}: {error}; {_ADVICE}")
