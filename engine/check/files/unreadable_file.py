"""Read a log dir's own files, and make findings about those that cannot be parsed."""

from __future__ import annotations

from engine.check.rules.finding import Finding, found
from engine.errors import CorruptCheckpointError, DamagedFileError
from engine.files.source_files import SourceRoot
from engine.units import Position

_LIMIT = 64 << 20


def contents(log_dir: SourceRoot, name: str) -> bytes | None:
    """Read a whole file of a log dir, None if it is missing. Raises LimitExceededError, OSError, SourceRefusedError."""
    try:
        return log_dir.read(name, limit=_LIMIT)
    except FileNotFoundError:
        return None


def unreadable_file(
    rule: str, log_dir: SourceRoot, name: str, data: bytes, error: Exception
) -> Finding:
    """Return the finding for a log dir's file that cannot be parsed; `data` is the file's content."""
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
    """Return the position of a line, the first being 1; the end of the data if there is no such line."""
    return len(b"".join(data.splitlines(keepends=True)[: line - 1]))
