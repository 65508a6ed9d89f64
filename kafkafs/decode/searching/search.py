"""Search: finds the records of a log that match a pattern in their key, value or headers.

The kernel does it: it decodes only batches that hold a literal of the pattern, or a record that a decoder with marks may
decode. It marks the records with a field that has the literal and that the pattern's automaton accepts. For a pattern
without an automaton, `re` is run on the records that have the literal. Of a decoded record, the pattern is also tried on
the text as in the record line; of a record in an internal topic only on this text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from engine import kernel
from engine.budgets import DEFAULT_BUDGETS
from engine.columns.batch_table import holds_control
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.log.view.log_view import LogView
from engine.verdict.log_runs import runs
from kafkafs.decode.batch_lines import BatchLines
from kafkafs.decode.error_line import damage_facts, problem_facts, shown_facts
from kafkafs.decode.searching.apart import Apart
from kafkafs.forms.record_format import RecordFormat
from kafkafs.records.conditions.known_records import known_of, narrowed_run
from kafkafs.records.conditions.pattern import (
    ENOUGH,
    Query,
    fields_of,
    matching_decoded,
    matching_records,
)
from kafkafs.records.conditions.required_literal import (
    NO_LITERAL,
)
from kafkafs.records.conditions.where import Where
from kafkafs.records.line_texts import counted_lines
from kafkafs.records.rows import chosen
from kafkafs.records.visible import Indices, SeenRun, Wanted

DamageFacts: TypeAlias = dict[str, Any]


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

    def after(self, number: int) -> Match:
        """Return the lines of the records after the first ones."""
        text = self.text[len(self.first(number).text) :] if number else self.text
        sizes = None if self.sizes is None else self.sizes[number:]
        return Match(text, max(self.records - number, 0), sizes)


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
        if self.where is not None and not with_shown:
            run = narrowed_run(self.where.truth, run, self.view.partition)
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
        options, table = self.options, chunk.run.table
        is_plain = options.shows_bytes and not holds_control(table).any()
        known = known_of(self.view.partition, chosen(chunk.columns, chunk.hits), is_plain=is_plain)
        truth = where.truth(known)
        is_met = np.broadcast_to(truth.is_sure, chunk.hits.shape).copy()
        where.count_met(int(is_met.sum()))
        tried = np.flatnonzero(~is_met & truth.is_possible)
        found = replace(self, form=None).lines(chunk, chunk.hits[tried]) if len(tried) else ()
        lines = b"".join(match.text for match in found).splitlines()

        def name_of(index: int) -> str:
            return f"{self.view.partition}:{chunk.columns.offset[chunk.hits[tried[index]]]}"

        is_met[tried] = where.marks(lines, name_of)
        return chunk.hits[is_met]

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
            yield from self._texts(self.form, chunk, indices)
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

    def _texts(self, form: RecordFormat, chunk: Chunk, indices: Indices) -> Iterator[Match]:
        """Yield the texts of some records, about ENOUGH bytes at a time."""
        pieces: list[bytes] = []
        sizes: list[int] = []
        waiting = 0
        for index in indices.tolist():
            text = form.text(chunk.columns, index, self.view.partition, chunk.run.table)
            pieces += text
            sizes.append(sum(map(len, text)))
            waiting += sizes[-1]
            if waiting >= ENOUGH:
                yield Match(b"".join(pieces), len(sizes), tuple(sizes))
                pieces, sizes, waiting = [], [], 0
        if sizes:
            yield Match(b"".join(pieces), len(sizes), tuple(sizes))
