"""The schemas that the records of a dump are decoded with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from engine.errors import SourceError
from engine.log.log_directory import LogSource, open_source
from kafkafs.dump.inputs import matches
from kafkafs.schemas.sources.known_schemas import AUTO, NONE, KnownSchemas


@contextmanager
def dump_schemas(arguments: Sequence[str], chosen: Sequence[str]) -> Iterator[KnownSchemas | None]:
    """Open the schemas of a dump for the time of the block; None if none are wanted.

    Args:
        arguments: files and folders to dump; the folders among them are one source.
        chosen: "auto" for the schemas of that source, "none", or paths. A file alone has no registry's topic.

    Raises:
        SourceError, SchemaFileError, OSError: as `KnownSchemas`.
    """
    if all(each == NONE for each in chosen):
        yield None
        return
    source = _source(arguments) if AUTO in chosen else None
    try:
        yield KnownSchemas(source, chosen)
    finally:
        if source is not None:
            source.close()


def _source(arguments: Sequence[str]) -> LogSource | None:
    """Return the folders as a source, without those that are none: the dump itself tells of them."""
    found = (path for argument in arguments for path in matches(argument))
    folders = [path for path in found if os.path.isdir(path) and _is_source(path)]
    return open_source(folders) if folders else None


def _is_source(path: str) -> bool:
    try:
        open_source(path).close()
    except (SourceError, OSError):
        return False
    return True
