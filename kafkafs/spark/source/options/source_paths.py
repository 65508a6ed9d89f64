"""The log dirs behind a path option: several, and with wildcards."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from engine.log.log_directory import LogSource, open_source
from kafkafs.spark.errors import OptionError


def open_paths(paths: tuple[str, ...]) -> LogSource:
    """The paths as one source, wildcards resolved.

    Raises:
        OptionError: a wildcard that matches nothing.
        SourceError: what is named is nothing of Kafka's.
    """
    return open_source(resolved(paths))


def resolved(paths: Sequence[str]) -> list[str]:
    """The paths absolute, each wildcard replaced by what it matches.

    Raises:
        OptionError: a wildcard that matches nothing.
    """
    found: list[str] = []
    for path in paths:
        local = path.removeprefix("file://") if path.startswith("file:///") else path
        if os.path.lexists(local) or not glob.has_magic(local):
            found.append(os.path.abspath(local))
            continue
        matches = sorted(glob.glob(local))
        if not matches:
            raise OptionError(f"nothing matches the path {path!r}")
        found += [os.path.abspath(match) for match in matches]
    return found
