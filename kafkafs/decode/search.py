"""Search: finds the records of a log that match a pattern in their key, value or headers.

For a pattern with a literal part, whole batches are first searched for it with memmem in the kernel, and only batches
that contain it are decoded. A pattern without one is tried on every record. In an internal topic with decoded keys
and values, it is tried on their text as in the record line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from re import _constants as ops, _parser as regex_parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, MiB
from engine.lines.internal_fields import internal_texts
from engine.log.log_view import LogView
from engine.log.segment.scan import BatchRun
from engine.memory_gate import LARGE
from engine.record.attributes import CONTROL_MASK
from engine.topics.decoded_record import TopicDecoder
from kafkafs.decode.batch_lines import BatchLines
from kafkafs.decode.error_line import damage_facts, problem_facts

DamageFacts: TypeAlias = dict[str, Any]
ENOUGH = 4 * MiB
"""Bytes of records or lines that are made at a time; a larger record is made whole."""
_ROWS = 16 * 1024
"""Number of records converted to Python numbers at a time."""
ALL_FIELDS = frozenset({"key", "value", "headers"})


class Query(NamedTuple):
    """A compiled bytes pattern, the fields to search, and a literal that every match contains (empty if unknown)."""

    pattern: re.Pattern[bytes]
    fields: frozenset[str]
    needle: bytes

    @classmethod
    def compile(
        cls,
        pattern: str,
        *,
        fixed: bool = False,
        ignore_case: bool = False,
        fields: frozenset[str] = ALL_FIELDS,
    ) -> Query:
        """Make a query for a regular expression, or for a literal text if `fixed`.

        Raises:
            re.error: the pattern is not a regular expression.
        """
        raw = pattern.encode("utf-8", "surrogateescape")
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        compiled = re.compile(re.escape(raw) if fixed else raw, flags)
        needle = b"" if ignore_case else raw if fixed else required_literal(raw)
        return cls(compiled, fields, needle)


def required_literal(pattern: bytes) -> bytes:
    """Return the longest run of plain bytes that every match of the pattern contains; empty if there is none."""
    best = current = b""
    parsed = regex_parser.parse(pattern)
    if parsed.state.flags & re.IGNORECASE:
        return b""
    for op, argument in parsed:
        if op is ops.LITERAL:
            current += bytes([argument])
            best = max(best, current, key=len)
        elif op is not ops.AT:  # an anchor takes no bytes: the run continues across it
            current = b""
    return best


class Decoding(NamedTuple):
    """Search decoded records of an internal topic. `controls` are the rows of control batches, which are searched as
    bytes.
    """

    decoder: TopicDecoder
    controls: frozenset[int]


class Match(NamedTuple):
    """Lines of matching records, and their number."""

    text: bytes
    records: int


def search(
    view: LogView,
    query: Query,
    *,
    from_offset: int,
    to_offset: int,
    options: kernel.LineOptions,
    on_damage: Callable[[DamageFacts], None],
    on_bytes: Callable[[int], None] = lambda _count: None,
) -> Iterator[Match]:
    """Yield the matching records of an offset range in log order, a batch or a few at a time.

    `on_damage` gets the facts of every place that cannot be searched, as in an error line.
    """
    for segment, item in view.runs(from_offset, to_offset):
        if not isinstance(item, BatchRun):
            if not item.is_quiet:
                on_damage(damage_facts(item))
            continue
        on_bytes(int(item.table["size"].sum()))
        decoding = None if options.decoder is None else Decoding(options.decoder, controls(item))
        hits = hits_of(item, query, is_decoded=decoding is not None)
        if not hits.any():
            del item  # free it before the next one is read: a batch may be as large as the budget
            continue
        fates = view.fates(segment, item)
        for first, last in spans(hits):
            while first < last:
                columns = decoded(item, first, last)
                for problem in columns.problems:
                    row = item.table[problem.row]
                    on_damage(problem_facts(problem, row, segment.path))
                for row, offsets in matching_rows(columns, query, decoding):
                    yield from lines_at(item, row, offsets, options, fates)
                first = columns.next_row
                del columns
        del item


def decoded(run: BatchRun, first: int, last: int) -> kernel.Columns:
    """Decode batches of [first, last), up to ENOUGH bytes of records."""
    return kernel.decode(
        run.buffer, run.table, first, last, start_position=run.start_position, enough=ENOUGH
    )


def controls(run: BatchRun) -> frozenset[int]:
    """Return the rows of a run that are control batches."""
    table = run.table
    marked = (table["magic"] == 2) & (table["attributes"] & CONTROL_MASK != 0)
    return frozenset(np.flatnonzero(marked).tolist())


def hits_of(run: BatchRun, query: Query, *, is_decoded: bool = False) -> npt.NDArray[np.uint8]:
    """Return a non-zero cell for each batch that may contain a match; decoded batches always may."""
    if not query.needle or is_decoded:
        return np.ones(len(run.table), dtype=np.uint8)
    return kernel.contains(
        run.buffer, run.table, 0, len(run.table), query.needle, start_position=run.start_position
    )


def spans(hits: npt.NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Return the runs of non-zero cells as half-open ranges."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (hits != 0).view(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def matching_rows(
    columns: kernel.Columns, query: Query, decoding: Decoding | None = None
) -> Iterator[tuple[int, set[int]]]:
    """Yield the row and the matching offsets of each batch with matches."""
    if decoding is None:
        matching = matching_records(columns, query)
    else:
        matching = matching_decoded(columns, query, decoding)
    rows, offsets = columns.row[matching].tolist(), columns.offset[matching].tolist()
    for row, group in groupby(zip(rows, offsets, strict=True), key=itemgetter(0)):
        yield row, {offset for _row, offset in group}


def lines_at(
    run: BatchRun,
    row: int,
    wanted: set[int],
    options: kernel.LineOptions,
    fates: npt.NDArray[np.uint8] | None,
) -> Iterator[Match]:
    """Yield the lines of a batch's records at the wanted offsets, if the options include them."""
    first_record = 0
    while True:
        result = kernel.lines(
            run.buffer,
            run.table,
            row,
            row + 1,
            start_position=run.start_position,
            options=options,
            fates=fates,
            enough=ENOUGH,
            first_record=first_record,
            most=LARGE,
        )
        found = [
            line + b"\n"
            for line in (result.text or b"").split(b"\n")
            if line and line_offset(line, options) in wanted
        ]
        if found:
            yield Match(b"".join(found), len(found))
        if result.is_large:
            yield from _large_lines_at(run, row, wanted, options, fates, result.next_record)
            return
        if not result.next_record:
            return
        first_record = result.next_record


def _large_lines_at(
    run: BatchRun,
    row: int,
    wanted: set[int],
    options: kernel.LineOptions,
    fates: npt.NDArray[np.uint8] | None,
    first_record: int,
) -> Iterator[Match]:
    """Yield the same for a large batch, from a record on. Long lines come in several parts."""
    fate = 0 if fates is None else int(fates[row])
    lines = BatchLines(run, row, options=options, fate=fate, budgets=DEFAULT_BUDGETS, path="")
    with lines as batch:
        for piece in batch.pieces(first_record):
            text = piece.text or b""
            if piece.record >= len(batch.offsets):
                return  # problems of the batch are reported separately
            ends = text.endswith(b"\n")
            if ends and not piece.skip:
                found = [
                    line
                    for line in text.splitlines(keepends=True)
                    if line_offset(line, options) in wanted
                ]
                if found:
                    yield Match(b"".join(found), len(found))
            elif int(batch.offsets[piece.record]) in wanted:
                yield Match(text, int(ends))


def line_offset(line: bytes, options: kernel.LineOptions) -> int:
    """Return the offset in a record line: the number right after the fixed prefix."""
    start = len(options.prefix)
    return int(line[start : line.index(b",", start)])


def matching_records(columns: kernel.Columns, query: Query) -> list[int]:
    """Return the indexes of the records that match in one of the query's fields."""
    return [
        index
        for first in range(0, len(columns), _ROWS)
        for index in _matching_of(columns, query, first, min(first + _ROWS, len(columns)))
    ]


def _matching_of(columns: kernel.Columns, query: Query, first: int, last: int) -> Iterator[int]:
    """Yield the same for the records [first, last)."""
    arena = memoryview(columns.arena)
    search_in = query.pattern.search
    with_key, with_value = "key" in query.fields, "value" in query.fields
    with_headers = "headers" in query.fields
    for index, record in enumerate(columns.table[first:last].tolist(), first):
        _, _, key_start, value_start, _, key_size, value_size, _, headers = record[:9]
        hit = (
            with_value
            and value_size >= 0
            and search_in(arena[value_start : value_start + value_size])
        ) or (with_key and key_size >= 0 and search_in(arena[key_start : key_start + key_size]))
        if not hit and with_headers and headers:
            hit = any(
                search_in(header.key) or (header.value is not None and search_in(header.value))
                for header in columns.headers(index)
            )
        if hit:
            yield index


def matching_decoded(columns: kernel.Columns, query: Query, decoding: Decoding) -> list[int]:
    """Return the same for decoded keys and values; control records are searched as bytes."""
    search_in = query.pattern.search
    found = []
    arena = columns.arena
    for i in range(len(columns)):
        record = columns.table[i].item()
        _, _, key_start, value_start, _, key_size, value_size, _, _, _, row = record
        key = bytes(arena[key_start : key_start + key_size]) if key_size >= 0 else None
        value = bytes(arena[value_start : value_start + value_size]) if value_size >= 0 else None
        if row not in decoding.controls:
            key, value = internal_texts(decoding.decoder, key, value)
        texts = [value if "value" in query.fields else None, key if "key" in query.fields else None]
        if "headers" in query.fields and record[8]:
            texts += [text for header in columns.headers(i) for text in (header.key, header.value)]
        if any(text is not None and search_in(text) for text in texts):
            found.append(i)
    return found
