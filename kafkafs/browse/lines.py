"""Lines of a screen: text of a known width, and how it stands out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from engine.units import Timestamp
from kafkafs.amounts import time
from kafkafs.decode.shown_text import printable

CUT = "…"
MARK = "!"
"""Stands before a row with damage, so that no colour is needed."""


class Style(Enum):
    """How a line stands out; the value is its ANSI attributes, and those without colours."""

    PLAIN = ("", "")
    BAR = ("7", "7")
    HEAD = ("1", "1")
    DAMAGE = ("31", "1")
    DIM = ("2", "")


class Line(NamedTuple):
    """One line of a screen."""

    text: str
    style: Style = Style.PLAIN


def width_of(text: str) -> int:
    """Return the number of columns that a terminal shows a text in.

    >>> width_of("orders"), width_of("注文")
    (6, 4)
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return a text in exactly `width` columns: filled with spaces, or without its end.

    >>> fit("orders", 8), fit("orders", 4), fit("注文注文", 6), fit("7", 3, right=True)
    ('orders  ', 'ord…', '注文… ', '  7')
    """
    if width <= 0:
        return ""
    if not text.isascii() or len(text) > width:
        # What is far beyond the width is not measured.
        text = printable(text[: 4 * width])
        if width_of(text) > width:
            kept = width - 1
            text = text[:kept]
            while width_of(text) > kept:
                text = text[:-1]
            text += CUT
    elif not text.isprintable():
        return fit(printable(text), width, right=right)
    space = " " * (width - width_of(text))
    return space + text if right else text + space


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a text in lines of at most `width` columns, broken anywhere; later lines are indented.

    >>> wrapped("abcdefgh", 5, "  ")
    ['abcde', '  fgh']
    """
    lines, text, lead = list[str](), printable(text), ""
    while True:
        room = max(width - len(lead), 1)
        piece = text[:room]
        while width_of(piece) > room:
            piece = piece[:-1]
        piece = piece or text[:1]
        lines.append(lead + piece)
        text = text[len(piece) :]
        if not text:
            return lines
        lead = indent


class ScreenColumn(NamedTuple):
    """A column of a table: its header, its width (0 for the room that is left), and whether numbers are in it."""

    name: str
    width: int = 0
    right: bool = False


def row(cells: Sequence[str], columns: Sequence[ScreenColumn], width: int) -> str:
    """Return the cells of a row in exactly `width` columns; columns of width 0 share what is left."""
    gaps = len(columns) - 1
    flexible = [column for column in columns if not column.width]
    left = width - gaps - sum(column.width for column in columns)
    share, more = divmod(max(left, 0), max(len(flexible), 1))
    parts = []
    for cell, column in zip(cells, columns, strict=True):
        room = column.width
        if not room:
            room, more = share + (1 if more else 0), max(more - 1, 0)
        parts.append(fit(cell, room, right=column.right))
    return fit(" ".join(parts), width)


def moment(timestamp: Timestamp | None) -> str:
    """Return a time in UTC to the second, as paths of the tree write it; "–" for none."""
    text = time(timestamp)
    return text.replace(" ", "T") + "Z" if "-" in text else text


class Cursor:
    """A cursor in rows, of which a screen shows some.

    Attributes:
        at: the row.
        top: the first row that is shown.
    """

    def __init__(self) -> None:
        self.at = 0
        self.top = 0

    def press(self, key: str, count: int, height: int) -> bool:
        """Move by a key in `count` rows; return whether it is a key that moves."""
        steps = {
            "up": -1,
            "down": 1,
            "pageup": -height,
            "pagedown": height,
            "home": -count,
            "end": count,
        }
        if key not in steps:
            return False
        self.at += steps[key]
        self.shown(count, height)
        return True

    def shown(self, count: int, height: int) -> range:
        """Return the rows that are shown; the cursor is among them."""
        self.at = min(max(self.at, 0), max(count - 1, 0))
        self.top = min(max(self.top, self.at - height + 1), self.at)
        self.top = max(min(self.top, count - height), 0)
        return range(self.top, min(self.top + height, count))
