"""Rows of text in columns, by the width that a terminal shows; also where it is too narrow for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

GAP = 2
CUT = "…"
LEAST = 5
"""Width that a cut column keeps."""
SCREEN = 20
"""Rows after which the header is repeated, where columns continue below."""


def table_lines(
    rows: Sequence[Sequence[str]], room: int | None, keys: int = 1, *, has_numbers: bool = False
) -> Iterator[str]:
    """Yield the lines of a table; its first row is the header.

    Args:
        rows: texts, as many in each row.
        room: the width to fit; None for no limit.
        keys: number of first columns that name a row.
        has_numbers: whether all other columns are numbers, which are right-aligned.

    >>> rows = [["TOPIC", "NOTE", "AGE"], ["orders", "a long remark", "1d"]]
    >>> print(*table_lines(rows, 20), sep="\\n")
    TOPIC   NOTE
    orders  a long
            remark
    <BLANKLINE>
    TOPIC   AGE
    orders  1d
    """
    columns = range(len(rows[0]))
    widths = [max(shown_width(row[place]) for row in rows) for place in columns]
    if room is not None:
        words = [max(_longest_word(row[place]) for row in rows) for place in columns]
        widths = _narrowed(widths, words, room, keys)
    parts = [list(columns)] if room is None else _parts(widths, room, keys)
    screen = len(rows) if len(parts) == 1 else SCREEN
    for first in range(1, max(len(rows), 2), max(screen, 1)):
        for part in parts:
            if first > 1 or part is not parts[0]:
                yield ""
            right, of_part = keys if has_numbers else None, [widths[place] for place in part]
            for row in (rows[0], *rows[first : first + screen]):
                if room is None:
                    yield _line(row, of_part, right)
                    continue
                cells = [
                    [cut_to(row[place], widths[place])]
                    if place < keys
                    else _cell_lines(row[place], widths[place])
                    for place in part
                ]
                yield from (
                    _line(texts, of_part, right) for texts in zip_longest(*cells, fillvalue="")
                )


def shown_width(text: str) -> int:
    """Return the number of columns that a terminal shows a text in.

    >>> [shown_width(text) for text in ("orders", "注文", "e\\u0301")]
    [6, 4, 1]
    """
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut_to(text: str, width: int) -> str:
    """Return a text without its middle, where it is wider: the ends of names tell them apart.

    >>> cut_to("customer-orders-17", 11), cut_to("注文注文注文", 7), cut_to("orders", 6)
    ('custo…rs-17', '注…注文', 'orders')
    """
    if shown_width(text) <= width:
        return text
    left = _beginning(text, width // 2)
    right = _beginning(text[::-1], width - len(CUT) - shown_width(left))[::-1]
    return left + CUT + right


def _longest_word(text: str) -> int:
    return max(map(shown_width, text.split(" ")))


def _beginning(text: str, width: int) -> str:
    end = 0
    while end < len(text) and shown_width(text[: end + 1]) <= width:
        end += 1
    return text[:end]


def _line(texts: Sequence[str], widths: Sequence[int], right: int | None) -> str:
    """Return a line; texts of the column `right` and of those after it are right-aligned."""
    cells = []
    for place, (text, width) in enumerate(zip(texts, widths, strict=True)):
        space = " " * (width - shown_width(text))
        cells.append(text + space if right is None or place < right else space + text)
    return (" " * GAP).join(cells).rstrip()


def _cell_lines(text: str, width: int) -> list[str]:
    """Return a text in lines of a width, broken between words; a word that is wider is cut."""
    lines: list[str] = []
    for word in [text] if shown_width(text) <= width else text.split(" "):
        if lines and shown_width(lines[-1]) + 1 + shown_width(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(cut_to(word, width))
    return lines


def _narrowed(widths: Sequence[int], words: Sequence[int], room: int, keys: int) -> list[int]:
    """Return the widths for a room. Other columns move below and break between words before a key is cut.

    Args:
        widths: what the columns need.
        words: what their longest words need.
        room: the width to fit.
        keys: number of first columns that name a row.
    """
    found = list(widths)
    of_keys = sum(found[:keys]) + GAP * (keys - 1)
    most = max(room - GAP - max(words[keys:], default=0), room // 3)
    excess = min(sum(found) + GAP * (len(found) - 1) - room, of_keys - most)
    for place in sorted(range(keys), key=found.__getitem__, reverse=True):
        taken = max(min(excess, found[place] - LEAST), 0)
        found[place] -= taken
        excess -= taken
    left = max(room - sum(found[:keys]) - GAP * keys, LEAST)
    return [*found[:keys], *(min(width, left) for width in found[keys:])]


def _parts(widths: Sequence[int], room: int, keys: int) -> list[list[int]]:
    """Return the columns of each part of a table, as many as fit; each part begins with the keys."""
    first = list(range(keys))
    used = start = sum(widths[place] + GAP for place in first)
    parts = [list(first)]
    for place in range(keys, len(widths)):
        if used + widths[place] > room and len(parts[-1]) > keys:
            parts.append(list(first))
            used = start
        parts[-1].append(place)
        used += widths[place] + GAP
    return parts
