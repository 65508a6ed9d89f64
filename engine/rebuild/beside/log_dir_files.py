"""The files of a source's log dir for the result: those that a broker can read; the checkpoints are made anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from engine.checkpoint.meta_properties import KNOWN_KEYS, parse_meta_properties
from engine.checkpoint.properties_file import parse_properties
from engine.errors import CorruptCheckpointError, DamagedFileError
from engine.files.file_names import (
    BOOTSTRAP_CHECKPOINT,
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, Unread
from engine.rebuild.beside.kraft_files import snapshot_flaw
from engine.rebuild.selection import LeftOut

_LIMIT = 64 << 20
_EFFECTS = {
    RECOVERY_POINT_CHECKPOINT: "the recovery points are the ends of the new logs",
    LOG_START_OFFSET_CHECKPOINT: "each log starts at its first segment, so records that were deleted"
    " below a log start may be there again",
    REPLICATION_OFFSET_CHECKPOINT: "brokers find the high watermarks again",
    CLEANER_OFFSET_CHECKPOINT: "the cleaner begins at the start of each compacted log",
}


class LogDirFiles(NamedTuple):
    """Files of the log dir.

    Attributes:
        files: files to copy, by name.
        left_out: files that are left out.
        unread: files that could not be read.
    """

    files: dict[str, bytes]
    left_out: list[LeftOut]
    unread: list[Unread]


def log_dir_files(log_dir: SourceRoot | None, names: Sequence[str]) -> LogDirFiles:
    """Return meta.properties and bootstrap.checkpoint of a log dir, without what would stop a broker.

    Args:
        log_dir: the log dir; None without one.
        names: names of the wanted files.
    """
    found = LogDirFiles({}, [], [])
    for name in names if log_dir is not None else ():
        assert log_dir is not None
        path = log_dir.display(name)
        try:
            data = log_dir.read(name, limit=_LIMIT)
            _refuse(name, data)
            found.files[name] = data
        except FileNotFoundError:
            continue
        except DamagedFileError as error:
            found.left_out.append(LeftOut(path, f"it is damaged: {error.reason}; {_WAY_OUT[name]}"))
        except OSError as error:
            found.unread.append(Unread.of(path, error))
            found.left_out.append(LeftOut(path, f"it cannot be read; {_WAY_OUT[name]}"))
    return found


_WAY_OUT = {
    META_PROPERTIES: "no broker starts without it: give the folder the meta.properties of its broker,"
    " by kafka-storage format in an empty log dir",
    BOOTSTRAP_CHECKPOINT: "a broker reads it only for a cluster without metadata",
}


def _refuse(name: str, data: bytes) -> None:
    """Raise DamagedFileError for a file that a broker cannot read."""
    if name == META_PROPERTIES:
        if not parse_properties(data, path=name).keys() & KNOWN_KEYS:
            raise CorruptCheckpointError(
                f"its {len(data)} bytes have no property that a broker knows", path=name
            )
        parse_meta_properties(data, path=name)
        return
    flaw = snapshot_flaw(data, has_frame=False)
    if flaw is not None:
        raise CorruptCheckpointError(flaw, path=name)


def remade_checkpoints(source: LogSource) -> Iterator[LeftOut]:
    """Yield the checkpoints of a source that could not be read, so that the new ones lack what they stated."""
    for problem in source.problems:
        name = problem["file"].rpartition("/")[2]
        if problem["kind"] == "checkpoint" and name in _EFFECTS:
            yield LeftOut(problem["file"], f"it is damaged: {problem['reason']}; {_EFFECTS[name]}")
    for log_dir in {root.path: root for root in source.log_dirs if root is not None}.values():
        for name, effect in _EFFECTS.items():
            with suppress(OSError):  # none, or told already
                if not log_dir.stat(
                    name
                ).st_size:  # a broker writes a version and a number at least
                    yield LeftOut(log_dir.display(name), f"it is empty; {effect}")
