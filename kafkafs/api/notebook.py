"""What a notebook shows of the objects of the Python API: HTML tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_MOST_CHARACTERS = 200
MOST_ROWS = 20
"""Rows of a table; what is left out is counted."""


def html_table(
    caption: str, names: Sequence[str], rows: Iterable[Sequence[object]], left_out: int = 0
) -> str:
    """Return a table in HTML.

    Args:
        caption: line above the table.
        names: names of the columns.
        rows: values of the columns; long ones are cut.
        left_out: number of rows that are not among `rows`.

    >>> html_table("orders", ["offset"], [[35]])
    '<table><caption>orders</caption><tr><th>offset</th></tr><tr><td>35</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows
    )
    foot = f'<tr><td colspan="{len(names)}">and {left_out:,} more</td></tr>' if left_out > 0 else ""
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}{foot}</table>"


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) < 10**9 else str(value)
    text = "" if value is None else str(value)
    return escape(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…")
