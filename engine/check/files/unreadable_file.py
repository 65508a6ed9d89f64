"""A log dir's own files as bytes, and what to say where they do not parse."""

from __future__ import annotations

from engine.check.rules.finding import Finding, found
from engine.errors import CorruptCheckpointError, DamagedFileError
from engine.files.source_files import SourceRoot
from engine.units import Position

_LIMIT = 64 << 20


def contents(log_dir: SourceRoot, name: str) -> bytes | None:
    """A file of a log dir whole, None when it is not there. Raises LimitExceededError, OSError, SourceRefusedError."""
    try:
        return log_dir.read(name, limit=_LIMIT)
    except FileNotFoundError:
        return None


def unreadable_file(
    rule: str, log_dir: SourceRoot, name: str, data: bytes, error: Exception
) -> Finding:
    """A finding of a file of a log dir that does not parse; `data` is the file."""
    line = error.line if isinstance(error, CorruptCheckpointError) else None
    is_damage = isinstance(error, DamagedFileError)
    position = error.position if isinstance(error, DamagedFileError) else None
    if position is None and line is not None:
        position = _start_of_line(data, line)
    return found(
        rule,
        log_dir.display(name),
        error.reason if isinstance(error, DamagedFileError) else str(error),
        position=position,
        length=None if position is None else len(data) - position,
        line=line,
        expected=error.expected if isinstance(error, DamagedFileError) else None,
        found=error.found if is_damage and isinstance(error, DamagedFileError) else None,
    )


def _start_of_line(data: bytes, line: int) -> Position:
    """Where a line begins, the first is 1; the end of the data when there is no such line."""
    return len(b"".join(data.splitlines(keepends=True)[: line - 1]))
