"""Zeros at the end of files and between their data: holes are passed over, not read."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from engine.budgets import MiB
from engine.units import Position

_READ = 1 * MiB


def first_data(
    fd: int, read_at: Callable[[Position, int], bytes], position: Position, end: Position
) -> Position:
    """Where the first byte that is not zero lies in [position, end); `end` if there is none.

    Args:
        fd: the file's descriptor, below 0 for what has none.
        read_at: reads so many bytes from a position.
        position, end: where to look.
    """
    while position < end:
        position = min(behind_hole(fd, position, end), end)
        data = read_at(position, min(_READ, end - position))
        if not data:
            return end
        rest = data.lstrip(b"\0")
        if rest:
            return position + len(data) - len(rest)
        position += len(data)
    return end


def behind_hole(fd: int, position: Position, end: Position) -> Position:
    """Where the next data lies, as far as the file system tells; a position that is in no hole."""
    if fd < 0:
        return position
    try:
        return os.lseek(fd, position, os.SEEK_DATA)
    except OSError as error:
        return end if error.errno == errno.ENXIO else position
