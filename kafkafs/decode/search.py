"""Search in records: which records of a log hold a pattern in their key, value or headers.

A pattern with a literal part is looked for in the raw bytes of whole batches first (memmem, without the
interpreter), and only batches that hold it are taken apart. A pattern without one is tried on every record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from re import _constants as ops, _parser as regex_parser  # type: ignore[attr-defined]
from typing import NamedTuple

import numpy as np

from engine import kernel
from engine.log.log_view import LogView
from engine.log.scan import BatchRun, Damage

ALL_FIELDS = frozenset({"key", "value", "headers"})


class Query(NamedTuple):
    """What to look for: a compiled bytes pattern, the fields it may stand in, and a literal that every
    match holds (empty: none is known)."""

    pattern: re.Pattern[bytes]
    fields: frozenset[str]
    needle: bytes
    is_literal: bool

    @classmethod
    def compile(
        cls,
        pattern: str,
        *,
        fixed: bool = False,
        ignore_case: bool = False,
        fields: frozenset[str] = ALL_FIELDS,
    ) -> Query:
        """A query for a regular expression, or for the text itself when `fixed`.

        Raises:
            re.error: the pattern is not a regular expression.
        """
        raw = pattern.encode("utf-8", "surrogateescape")
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        compiled = re.compile(re.escape(raw) if fixed else raw, flags)
        needle = b"" if ignore_case else raw if fixed else required_literal(raw)
        return cls(compiled, fields, needle, fixed or needle == raw)


def required_literal(pattern: bytes) -> bytes:
    """The longest run of plain bytes that every match of the pattern must hold; empty when none is sure."""
    best = current = b""
    parsed = regex_parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return b""
    for op, argument in parsed:
        if op is ops.LITERAL:
            current += bytes([argument])
            best = max(best, current, key=len)
        elif op is not ops.AT:  # an anchor takes no bytes: the run goes on across it
            current = b""
    return best


class Match(NamedTuple):
    """Records of one batch run that match: their lines, and how many they are."""

    text: bytes
    records: int


def search(
    view: LogView,
    query: Query,
    *,
    from_offset: int,
    to_offset: int,
    options: kernel.LineOptions,
    on_damage: Callable[[Damage], None],
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> Iterator[Match]:
    """The matching records of an offset range in log order, batch run by batch run."""
    for segment, item in view.runs(from_offset, to_offset):
        if isinstance(item, Damage):
            on_damage(item)
            continue
        on_bytes(int(item.table["size"].sum()))
        if not query.needle:
            hits = np.ones(len(item.table), dtype=np.uint8)
        else:
            hits = kernel.contains(
                item.buffer, item.table, 0, len(item.table), query.needle,
                start_position=item.start_position,
            )  # fmt: skip
        if hits.any():
            fates = view.fates(segment, item)
            for first, last in spans(hits):
                match = search_rows(item, first, last, query, options, fates)
                if match.records:
                    yield match


def spans(hits: np.ndarray) -> list[tuple[int, int]]:
    """Runs of non-zero cells as half-open ranges."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (hits != 0).view(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def search_rows(
    run: BatchRun,
    first: int,
    last: int,
    query: Query,
    options: kernel.LineOptions,
    fates: np.ndarray | None,
) -> Match:
    """The lines of the matching records of batches [first, last) of a run."""
    out: list[bytes] = []
    columns = kernel.decode(run.buffer, run.table, first, last, start_position=run.start_position)
    matching = matching_records(columns, query)
    if not matching:
        return Match(b"", 0)
    rows = columns.row
    offsets = columns.offset
    for row in sorted({int(rows[i]) for i in matching}):
        wanted = {int(offsets[i]) for i in matching if rows[i] == row}
        out += lines_at(run, row, wanted, options, fates)
    return Match(b"".join(out), len(out))


def lines_at(
    run: BatchRun,
    row: int,
    wanted: set[int],
    options: kernel.LineOptions,
    fates: np.ndarray | None,
) -> list[bytes]:
    """The record lines of one batch whose offsets are wanted; those the options leave out are left out."""
    result = kernel.lines(
        run.buffer, run.table, row, row + 1, start_position=run.start_position,
        options=options, fates=fates,
    )  # fmt: skip
    return [
        line + b"\n"
        for line in (result.text or b"").split(b"\n")
        if line and line_offset(line, options) in wanted
    ]


def line_offset(line: bytes, options: kernel.LineOptions) -> int:
    """The offset in a record line: the number right after the fixed prefix."""
    start = len(options.prefix)
    return int(line[start : line.index(b",", start)])


def matching_records(columns: kernel.Columns, query: Query) -> list[int]:
    """Indexes of the records that match in one of the query's fields."""
    arena = memoryview(columns.arena)
    search_in = query.pattern.search
    found = []
    with_key, with_value = "key" in query.fields, "value" in query.fields
    with_headers = "headers" in query.fields
    key_start, key_size = columns.key_start.tolist(), columns.key_size.tolist()
    value_start, value_size = columns.value_start.tolist(), columns.value_size.tolist()
    headers_count = columns.headers_count.tolist()
    for i in range(len(key_start)):
        hit = (
            with_value
            and value_size[i] >= 0
            and search_in(arena[value_start[i] : value_start[i] + value_size[i]])
        ) or (
            with_key
            and key_size[i] >= 0
            and search_in(arena[key_start[i] : key_start[i] + key_size[i]])
        )
        if not hit and with_headers and headers_count[i]:
            hit = any(
                search_in(header.key) or (header.value is not None and search_in(header.value))
                for header in columns.headers(i)
            )
        if hit:
            found.append(i)
    return found
