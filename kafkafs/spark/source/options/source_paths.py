"""Log dirs of a path option, which may list several and have wildcards."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Sequence

from engine.cut.moment import Moment
from engine.cut.opening import open_at
from engine.errors import SourceError
from engine.files.stores import STORES
from engine.log.log_directory import LogSource
from kafkafs.spark.errors import OptionError


def open_paths(paths: tuple[str, ...], at: Moment | None = None) -> LogSource:
    """Open the paths as one source, with wildcards expanded, as it was at a moment.

    Raises:
        OptionError: a wildcard matches nothing.
        MomentError: the source does not have what names the moment.
        SourceError: a path is not Kafka's; what to name in its place is in its text, as Spark shows no more.
    """
    try:
        return open_at(resolved(paths), at)
    except SourceError as error:
        text = f"{error.reason} ({error.hint})" if error.hint else error.reason
        raise SourceError(text, hint=error.hint) from None


def resolved(paths: Sequence[str]) -> list[str]:
    """Return the absolute paths, with wildcards expanded.

    Raises:
        OptionError: a wildcard matches nothing.
    """
    found: list[str] = []
    for path in map(STORES.local, paths):
        local = path.removeprefix("file://") if path.startswith("file:///") else path
        if os.path.lexists(local) or not glob.has_magic(local):
            found.append(os.path.abspath(local))
            continue
        matches = sorted(glob.glob(local))
        if not matches:
            raise OptionError(f"nothing matches the path {path!r}")
        found += [os.path.abspath(match) for match in matches]
    if any(map(os.path.isfile, found)):
        # Imported here: most sources are folders.
        from kafkafs.unpacking import unpacked

        found = unpacked(found, warnings.warn)
    return found
