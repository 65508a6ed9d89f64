"""Pictures in characters: sparklines, and strips of damaged files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.:-=+*#"
STRIP_WIDTH = 64


def sparkline(numbers: Sequence[int], encoding: str | None = None) -> str:
    """Return a character for each number, higher for larger ones, and a space for 0.

    >>> sparkline([0, 1, 50, 100], "utf-8"), sparkline([0, 1, 50, 100], "ascii")
    (' ▁▅█', ' _=#')
    """
    levels = _BLOCKS if _is_drawn(_BLOCKS, encoding or sys.stdout.encoding) else _ASCII
    most = max(numbers, default=0)
    top = len(levels) - 1
    return "".join(
        levels[min(number * len(levels) // most, top)] if number else " " for number in numbers
    )


def _is_drawn(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def strip(size: int, holes: Iterable[tuple[int, int]], width: int = STRIP_WIDTH) -> str:
    """Return a file as a strip of characters to scale: "X" where a hole is, "-" elsewhere.

    >>> strip(1000, [(0, 1), (500, 100)], 20)
    'X---------XX--------'

    Args:
        size: bytes of the file.
        holes: position and length of each.
        width: number of characters.
    """
    cells = ["-"] * width
    for position, length in holes:
        first = min(position * width // max(size, 1), width - 1)
        end = -(-(position + length) * width // max(size, 1))
        for place in range(first, min(max(end, first + 1), width)):
            cells[place] = "X"
    return "".join(cells)
