"""Search: finds the records of a log that match a pattern in their key, value or headers.

The kernel does it: it decodes only batches that hold a literal of the pattern, or a record that a decoder with marks may
decode. It marks the records with a field that has the literal and that the pattern's automaton accepts. For a pattern
without an automaton, `re` is run on the records that have the literal. Of a decoded record, the pattern is also tried on
the text as in the record line; of a record in an internal topic only on this text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS, MiB
from engine.coding.layout import Buffer
from engine.columns.batch_table import holds_control
from engine.columns.columns import RECORD_ROW, Column
from engine.columns.matching import Automaton, Fields
from engine.lines.json_text import Values
from engine.lines.line_decoder import LineDecoder, decoded_texts
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.log.view.log_view import LogView
from engine.verdict.log_runs import runs
from kafkafs.decode.batch_lines import BatchLines
from kafkafs.decode.error_line import damage_facts, problem_facts, shown_facts
from kafkafs.decode.record_format import RecordFormat
from kafkafs.decode.searching.apart import Apart
from kafkafs.decode.searching.regex_automaton import automaton_of
from kafkafs.decode.searching.required_literal import NO_LITERAL, RequiredLiteral, required_literal
from kafkafs.decode.searching.utf8_patterns import compile_pattern
from kafkafs.decode.searching.where import Where
from kafkafs.records.line_texts import counted_lines
from kafkafs.records.rows import OPAQUE_ROW, are_marked, chosen
from kafkafs.records.visible import Indices, Marks, SeenRun, Wanted

DamageFacts: TypeAlias = dict[str, Any]
_REFERENCE = re.compile(r"\\[1-9]")
ENOUGH = 4 * MiB
"""Bytes of records or lines that are made at a time; a larger record is made whole."""
_ROWS = 16 * 1024
"""Number of records converted to Python numbers at a time."""
ALL_FIELDS = frozenset({"key", "value", "headers"})


class Query(NamedTuple):
    """A compiled bytes pattern, the fields to search, and how the kernel searches for it.

    Attributes:
        literal: a literal that each matching field contains.
        automaton: finds what the pattern finds; None if the pattern is the literal, or if `re` has to be used.
    """

    pattern: re.Pattern[bytes]
    fields: frozenset[str]
    literal: RequiredLiteral
    automaton: Automaton | None

    @classmethod
    def compile(
        cls,
        *patterns: str,
        fixed: bool = False,
        ignore_case: bool = False,
        is_word: bool = False,
        fields: frozenset[str] = ALL_FIELDS,
    ) -> Query:
        """Make a query for regular expressions, or for literal texts if `fixed`; each may match.

        Args:
            is_word: whether no letter, digit or underscore may be beside a match.

        Raises:
            re.error: a pattern is not a regular expression.
        """
        if len(patterns) > 1:
            for each in () if fixed else patterns:
                if re.compile(each).groups and _REFERENCE.search(each):
                    raise re.error(
                        "with several patterns, give groups names: (?P<name>…) (?P=name)"
                    )
            text = "|".join(f"(?:{re.escape(each) if fixed else each})" for each in patterns)
        else:
            text = re.escape(patterns[0]) if fixed else patterns[0]
        flags = re.IGNORECASE if ignore_case else re.NOFLAG
        compiled = compile_pattern(text, flags, is_word=is_word)
        literal = required_literal(compiled)
        return cls(compiled, fields, literal, None if literal.is_all else automaton_of(compiled))

    @property
    def bits(self) -> Fields:
        """The fields, for the kernel."""
        bits = Fields(0)
        for name in self.fields:
            bits |= Fields[name.upper()]
        return bits


class Match(NamedTuple):
    """Lines of matching records, and their number. Of records that are only counted there are no lines.

    Attributes:
        sizes: of the texts of the records in bytes, where these need not be lines.
    """

    text: bytes
    records: int
    sizes: tuple[int, ...] | None = None

    def first(self, most: int) -> Match:
        """Return the lines of at most so many records."""
        if self.records <= most:
            return self
        if self.sizes is not None:
            return Match(self.text[: sum(self.sizes[:most])], most, self.sizes[:most])
        lines = self.text.split(b"\n", most)
        return Match(b"\n".join(lines[:most]) + b"\n", most)


class Found(NamedTuple):
    """A part of a matching record: where it is, and what matches."""

    offset: int
    field: str
    content: bytes


class Chunk(NamedTuple):
    """Decoded records of a run.

    Attributes:
        run, columns, fates: the records.
        hits: indexes of the matching records that are in the range and have lines.
        shown: indexes of all records that are in the range and have lines, if they were asked for.
    """

    run: BatchRun
    columns: kernel.Columns
    fates: npt.NDArray[np.uint8] | None
    hits: Indices
    shown: Indices


@dataclass(frozen=True, slots=True)
class Search:
    """A search of a view's records, from `from_offset` up to `to_offset` of the options.

    Its parts may be searched in several threads.

    Attributes:
        view: the records.
        query: what to find; None for all records.
        options: the fields of the lines, their mask, which the facts of damage have, too, and the range of offsets.
        only_count: make no lines.
        is_inverted: whether the records are wanted that do not match.
        form: the text of each record, in place of its line. Control records have none.
        where: a condition that the lines of the wanted records meet, too. It sees masked lines.
        apart: set for records that are not part of a log.
        shows_control: whether control records are among the records.
    """

    view: LogView
    query: Query | None
    options: kernel.LineOptions
    only_count: bool = False
    is_inverted: bool = False
    form: RecordFormat | None = None
    where: Where | None = None
    apart: Apart | None = None
    shows_control: bool = True

    def parts(self) -> Iterator[tuple[LogSegment, ScanItem]]:
        """Yield what is to be searched, in log order."""
        if self.apart is not None:
            return self.view.runs(self.options.from_offset, self.options.to_offset)
        return runs(self.view, self.options.from_offset, self.options.to_offset)

    def results(self, segment: LogSegment, part: ScanItem) -> Iterator[Match | DamageFacts]:
        """Yield a part's matching records in log order, some at a time, and the places that cannot be searched."""
        for chunk in self.chunks(segment, part):
            if not isinstance(chunk, Chunk):
                yield chunk
            elif self.only_count and len(chunk.hits):
                yield Match(b"", len(chunk.hits))
            elif len(chunk.hits):
                yield from self.lines(chunk, chunk.hits)

    def found(self, segment: LogSegment, part: ScanItem) -> Iterator[list[Found] | DamageFacts]:
        """Yield what matches in a part, one list for each matching record, and the places that cannot be searched."""
        query, decoder = self.query, self.options.bare.decoder
        assert query is not None
        for chunk in self.chunks(segment, part):
            if not isinstance(chunk, Chunk):
                yield chunk
                continue
            is_control = holds_control(chunk.run.table)
            for index in chunk.hits.tolist():
                texts = fields_of(chunk.columns, index, query, decoder, is_control)
                offset = int(chunk.columns.offset[index])
                yield [
                    Found(offset, field, match[0])
                    for field, text in texts
                    for match in query.pattern.finditer(text)
                    if match[0]
                ]

    def chunks(
        self, segment: LogSegment, part: ScanItem, *, with_shown: bool = False
    ) -> Iterator[Chunk | DamageFacts]:
        """Yield the decoded records of a part, some at a time, and the places that cannot be searched.

        Args:
            with_shown: whether all records are wanted, also those of batches without a match.
        """
        if isinstance(part, BatchRun):
            yield from self._chunks_of(segment, part, with_shown=with_shown)
        elif not part.is_quiet:
            yield shown_facts(damage_facts(part), self.options.mask)

    def _chunks_of(
        self, segment: LogSegment, run: BatchRun, *, with_shown: bool
    ) -> Iterator[Chunk | DamageFacts]:
        literal = NO_LITERAL if self.query is None else self.query.literal
        decoder = self.options.bare.decoder
        marks = None if decoder is None else decoder.marks
        has_all_decoded = decoder is not None and marks is None
        is_selective = not (with_shown or self.is_inverted or has_all_decoded)
        needle = literal.content if is_selective else b""
        options, first = self.options, 0
        is_shown = self.shows_control and self.form is None and not options.committed
        wanted = Wanted(options.from_offset, options.to_offset, options.committed, is_shown)
        seen = SeenRun(self.view, segment, run, wanted)
        while first < len(run.table):
            columns = kernel.decode(
                run.buffer,
                run.table,
                first,
                len(run.table),
                start_position=run.start_position,
                enough=ENOUGH,
                needle=needle,
                fold=literal.fold,
                marks=marks,
            )
            for problem in columns.problems:
                facts = problem_facts(problem, run.table[problem.row], segment.path)
                yield shown_facts(facts, options.mask)
            hits = self._matching(run, columns)
            if self.is_inverted:
                hits = np.setdiff1d(np.arange(len(columns)), hits)
            hits = self._visible(seen, columns, hits)
            if self.where is not None and len(hits):
                hits = self._where(self.where, Chunk(run, columns, seen.all_fates, hits, hits))
            shown = hits
            if with_shown:
                shown = self._visible(seen, columns, np.arange(len(columns)))
            if len(shown):
                yield Chunk(run, columns, seen.all_fates, hits, shown)
            first = columns.next_row
            del columns

    def _visible(self, seen: SeenRun, columns: kernel.Columns, indices: Indices) -> Indices:
        """Return those of some records that are in the range and have lines."""
        if not len(indices):
            return indices
        indices = seen.seen(columns, indices)
        return indices if self.apart is None else self.apart.only_here(columns, indices)

    def _where(self, where: Where, chunk: Chunk) -> Indices:
        """Return the indexes of the hits of which a condition is true."""
        found = replace(self, form=None).lines(chunk, chunk.hits)
        lines = b"".join(match.text for match in found).splitlines()

        def name_of(index: int) -> str:
            return f"{self.view.partition}:{chunk.columns.offset[chunk.hits[index]]}"

        return chunk.hits[np.array(where.marks(lines, name_of), np.bool_)]

    def _matching(self, run: BatchRun, columns: kernel.Columns) -> Indices:
        """Return the indexes of the records that match in one of the query's fields."""
        if self.query is None:
            return np.arange(len(columns))
        decoder = self.options.bare.decoder
        if decoder is not None:
            return matching_decoded(columns, self.query, decoder, holds_control(run.table))
        return matching_records(columns, self.query)

    def lines(self, chunk: Chunk, indices: Indices) -> Iterator[Match]:
        """Yield the lines of some records, or their texts. Long lines come in several parts."""
        if self.form is not None:
            yield from self._texts(self.form, chunk.columns, indices)
        elif self.apart is None:
            yield from self._lines(chunk, indices)
        else:
            named = self.apart.named(match.text for match in self._lines(chunk, indices))
            yield from (Match(text, text.count(b"\n")) for text in named)

    def _lines(self, chunk: Chunk, indices: Indices) -> Iterator[Match]:
        run, fates, options = chunk.run, chunk.fates, self.options
        columns = chosen(chunk.columns, indices)

        def large(record: int) -> Iterator[bytes]:
            row = int(columns.row[record])
            fate = 0 if fates is None else int(fates[row])
            lines = BatchLines(
                run, row, options=options, fate=fate, budgets=DEFAULT_BUDGETS, path=""
            )
            return (piece.text or b"" for piece in lines.large_line(columns, record))

        lines = counted_lines(run.table, columns, options, fates, enough=ENOUGH, large=large)
        return (Match(text, records) for text, records in lines)

    def _texts(
        self, form: RecordFormat, columns: kernel.Columns, indices: Indices
    ) -> Iterator[Match]:
        """Yield the texts of some records, about ENOUGH bytes at a time."""
        pieces: list[bytes] = []
        sizes: list[int] = []
        waiting = 0
        for index in indices.tolist():
            text = form.text(columns, index, self.view.partition)
            pieces += text
            sizes.append(sum(map(len, text)))
            waiting += sizes[-1]
            if waiting >= ENOUGH:
                yield Match(b"".join(pieces), len(sizes), tuple(sizes))
                pieces, sizes, waiting = [], [], 0
        if sizes:
            yield Match(b"".join(pieces), len(sizes), tuple(sizes))


def matching_records(columns: kernel.Columns, query: Query) -> Indices:
    """Return the indexes of the records that match in one of the query's fields."""
    literal = query.literal
    marks = kernel.matching(
        columns, query.bits, literal.content, fold=literal.fold, automaton=query.automaton
    )
    marked = np.flatnonzero(marks)
    if literal.is_all or query.automaton is not None:
        return marked
    return np.array(list(_tried(columns, query, marked)), np.intp)


def _tried(columns: kernel.Columns, query: Query, indices: Indices) -> Iterator[int]:
    """Yield those of some records in which the pattern is found."""
    arena = memoryview(columns.arena)
    search_in = query.pattern.search
    with_key, with_value = "key" in query.fields, "value" in query.fields
    with_headers = "headers" in query.fields
    for first in range(0, len(indices), _ROWS):
        some = indices[first : first + _ROWS]
        for index, record in zip(some.tolist(), chosen(columns, some).table.tolist(), strict=True):
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


def fields_of(
    columns: kernel.Columns,
    index: int,
    query: Query,
    decoder: LineDecoder | None,
    is_control: Marks,
) -> list[tuple[str, bytes]]:
    """Return the names and the texts of a record's fields that a query searches."""
    key, value = columns.key(index), columns.value(index)
    headers = columns.headers(index) if columns.headers_count[index] > 0 else []
    keys: Sequence[bytes | None] = [key]
    values: Sequence[bytes | None] = [value]
    if decoder is not None and not is_control[columns.row[index]]:
        timestamp = int(columns.timestamp[index])
        keys, values = decoded_texts(decoder, key, value, headers, timestamp)
    found = [*(("key", text) for text in keys), *(("value", text) for text in values)]
    for header in headers:
        found += [("headers", header.key), ("headers", header.value)]
    return [(name, text) for name, text in found if text is not None and name in query.fields]


def matching_decoded(
    columns: kernel.Columns,
    query: Query,
    decoder: LineDecoder,
    is_control: Marks,
) -> Indices:
    """Return the same where the text of decoded keys and values is searched, too.

    Records of control batches are searched as bytes. A decoder of all records hides their bytes.
    """
    if decoder.marks is None:
        is_tried = ~is_control[columns.row]
        known = np.empty(0, np.intp)
    else:
        is_tried = are_marked(columns, decoder.marks) & ~is_control[columns.row]
        known = matching_records(columns, query)
        is_tried[known] = False
    tried = np.flatnonzero(is_tried)
    left = chosen(columns, tried)
    found, done = [known], 0
    while done < len(left):
        some = kernel.Columns(left.table[done:], left.arena, [], 0)
        texts = decoder.texts(some, Values.AUTO, ENOUGH, is_bare=True)
        stop = done + len(texts.places)
        for at, name in enumerate(("key", "value")):
            starts, sizes = texts.places[:, 2 * at], texts.places[:, 2 * at + 1]
            if name in query.fields:
                found.append(tried[done + _matching_texts(texts.text, starts, sizes, query)])
            if decoder.marks is None:  # the bytes of what is decoded are not searched
                left.table[f"{name}_size"][done:stop][sizes >= 0] = -1
        done = stop
    if decoder.marks is None:
        others = columns.table.copy()
        others.view(OPAQUE_ROW)[tried] = left.table.view(OPAQUE_ROW)
        found.append(matching_records(kernel.Columns(others, columns.arena, [], 0), query))
    return np.unique(np.concatenate(found))


def _matching_texts(text: Buffer, starts: Column, sizes: Column, query: Query) -> Indices:
    """Return the indexes of the texts that match; -1 is the size of one that is not there."""
    table = np.zeros(len(starts), RECORD_ROW.dtype)
    table["key_start"] = table["value_start"] = starts = np.maximum(starts, 0)
    table["key_size"], table["value_size"] = -1, sizes
    # The kernel searches a record from its key to the end of its headers.
    table["headers_start"] = starts + np.maximum(sizes, 0)
    values = query._replace(fields=frozenset({"value"}))
    return matching_records(kernel.Columns(table, memoryview(text), [], 0), values)
