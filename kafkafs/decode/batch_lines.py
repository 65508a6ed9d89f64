"""Record lines of one large batch, in pieces: the batch is decoded once, and no long line is ever whole in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

from engine import kernel
from engine.arrays import np
from engine.budgets import Budgets
from engine.coding.layout import Buffer
from engine.coding.varint import read_varint
from engine.columns.batch_table import BatchProblem
from engine.columns.columns import Column, read_headers
from engine.columns.decoding import Row
from engine.lines.json_text import Shown, Values
from engine.lines.line_decoder import BARE, details_json, field_json
from engine.lines.line_writer import bare_record, batch_facts
from engine.lines.record_line import LineOptions, line_end, line_start, named_field
from engine.log.segment.scan import BatchRun
from engine.memory_gate import DECODED, LARGE, batches_decoded
from kafkafs.decode.error_line import problem_line

PIECE_TEXT = 512 * 1024
"""Bytes of text of small records per piece."""
PIECE_BYTES = 1024 * 1024
"""Bytes of a large field per piece; their text has up to six times as many bytes."""
_MOST_IN_CONTROL = 64 * 1024
_Part = bytes | int
"""Text, or its size if it is only measured."""
Measure = Callable[[], bool]
"""Returns whether the next part is only measured."""


class TextPiece(NamedTuple):
    """A piece of a batch's text.

    Attributes:
        text: the text, or None if it was only measured.
        size: its size in bytes.
        record, skip: where the piece begins: the index of a record, and the byte position in that record's line.
    """

    text: bytes | None
    size: int
    record: int
    skip: int


class BatchLines:
    """A batch with its lines made in pieces. A context manager.

    Between `__enter__` and `__exit__` the records are in memory; other threads wait to decode large batches.

    Args:
        run, row: the batch.
        options: the content of lines, and their offset range.
        fate: fate of the batch's transaction.
        budgets: for decoding.
        path: the segment's file, for error lines.
    """

    def __init__(
        self,
        run: BatchRun,
        row: int,
        *,
        options: LineOptions,
        fate: int,
        budgets: Budgets,
        path: str,
    ) -> None:
        self._run = run
        self._row = row
        self._options = options
        self._fate = fate
        self._budgets = budgets
        self._path = path
        self._columns: kernel.Columns | None = None
        self._room = batches_decoded.room(DECODED)

    def __enter__(self) -> Self:
        self._room.__enter__()
        try:
            if not self._options.leaves_out(self._run.table[self._row], self._fate):
                run, row = self._run, self._row
                self._columns = run.decoded(row, self._budgets)
        except BaseException:
            self._room.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._columns = None
        self._room.__exit__(None, None, None)

    @property
    def problems(self) -> list[BatchProblem]:
        """Problems that keep the batch from being decoded completely; at most one."""
        return [] if self._columns is None else self._columns.problems[:1]

    @property
    def offsets(self) -> Column:
        """Offsets of the records."""
        return np.empty(0, np.int64) if self._columns is None else self._columns.offset

    def pieces(
        self, record: int = 0, skip: int = 0, *, measure: bool = False
    ) -> Iterator[TextPiece]:
        """Yield the text from a record's line on, without its first `skip` bytes. `skip` must be the end of a piece."""
        columns = self._columns
        if columns is None:
            return
        while record < len(columns):
            if not skip:
                found = kernel.column_lines(
                    self._run.table,
                    columns,
                    options=self._options,
                    fate=self._fate,
                    first_record=record,
                    measure=measure,
                    enough=PIECE_TEXT,
                    most=LARGE,
                )
                if found.size:
                    yield TextPiece(found.text, found.size, record, 0)
                if found.rows_done:
                    break
                record = found.next_record
                if not found.is_large:
                    continue
            yield from self.large_line(columns, record, skip, measure=measure)
            record, skip = record + 1, 0
        for problem in self.problems:
            text = problem_line(problem, self._run.table[self._row], self._path, self._options.mask)
            if not skip:
                yield TextPiece(None if measure else text, len(text), len(columns), 0)

    def large_line(
        self, columns: kernel.Columns, record: int, skip: int = 0, *, measure: bool = False
    ) -> Iterator[TextPiece]:
        """Yield the text of one of some decoded records of the batch, as `pieces`."""
        if self._options.mask is not None:
            from engine.lines.masked_lines import masked_large_line

            batch, row = self._run.table[self._row], columns.table[record].item()
            line = masked_large_line(batch, row, self._options, self._fate)
            if not skip:
                yield TextPiece(None if measure else line, len(line), record, 0)
            return
        made = [0]
        at = 0
        parts = self._parts(columns, record, lambda: measure or made[0] < skip)
        for part in _joined(_counted(parts, made)):
            size = _size(part)
            if at >= skip:
                yield TextPiece(None if isinstance(part, int) else part, size, record, at)
            at += size

    def _parts(self, columns: kernel.Columns, index: int, measure: Measure) -> Iterator[_Part]:
        """Yield a record's line in parts, byte for byte as `record_line` makes it."""
        fields: Row = columns.table[index].item()
        _, _, key_at, value_at, headers_at, key_size, value_size, _, count, _, _ = fields
        arena, mode = columns.arena, self._options.mode
        key = None if key_size < 0 else arena[key_at : key_at + key_size]
        value = None if value_size < 0 else arena[value_at : value_at + value_size]
        batch = self._run.table[self._row]
        record = bare_record(batch, fields)
        facts = batch_facts(batch)
        if facts["is_control"]:
            record.key = None if key is None else bytes(key[:_MOST_IN_CONTROL])
            record.value = None if value is None else bytes(value[:_MOST_IN_CONTROL])
        yield line_start(record, self._options)
        if mode is Values.NONE:
            yield b',"keySize":%d,"valueSize":%d' % (key_size, value_size)
        else:
            decoder = None if facts["is_control"] else self._options.decoder
            shown = BARE
            if decoder is not None:
                headers = read_headers(arena, headers_at, count)
                shown = decoder.shown(key, value, headers, record.timestamp)
            for name, data, field in ((b"key", key, shown[0]), (b"value", value, shown[1])):
                yield b","
                if field is not None and field.text is not None:
                    yield field_json(name, b"", field, mode)
                    continue
                yield from field_pieces(name, data, mode, measure)
                if field is not None:
                    yield details_json(name, field)
        yield b',"headers":['
        for number in range(count):
            size, headers_at = read_varint(arena, headers_at)
            yield b",{" if number else b"{"
            yield from field_pieces(
                b"key", arena[headers_at : headers_at + size], Values.TEXT, measure
            )
            headers_at += size
            size, headers_at = read_varint(arena, headers_at)
            if mode is not Values.NONE:
                content = None if size < 0 else arena[headers_at : headers_at + size]
                yield b","
                yield from field_pieces(b"value", content, mode, measure)
            headers_at += max(size, 0)
            yield b"}"
        yield b"]" + line_end(record, self._options, fate=self._fate, **facts)


def field_pieces(
    name: bytes, data: Buffer | None, mode: Values, measure: Measure
) -> Iterator[_Part]:
    """Yield a field as `named_field` makes it, in pieces if it is large."""
    if data is None or len(data) <= PIECE_BYTES:
        yield named_field(name, None if data is None else bytes(data), mode)
        return
    shown = Shown(kernel.how_shown(data, mode))
    yield b'"%s":' % name
    at, in_string = 0, False
    while at < len(data):
        text, size, at, in_string = kernel.text_piece(
            data, at, PIECE_BYTES, shown, in_string, measure()
        )
        if text is None:
            yield size
        else:
            yield text
    if shown is not Shown.TEXT:
        yield b',"%sEncoding":"%s"' % (name, shown.name.lower().encode())


def _counted(parts: Iterable[_Part], made: list[int]) -> Iterator[_Part]:
    """Yield the parts; `made` is the total size of the parts before the next one."""
    for part in parts:
        yield part
        made[0] += _size(part)


def _joined(parts: Iterable[_Part]) -> Iterator[_Part]:
    """Join small parts. Measured parts are joined at the same boundaries as made ones."""
    small: list[_Part] = []
    size = 0
    for part in parts:
        own = _size(part)
        if own < PIECE_TEXT:
            small.append(part)
            size += own
            if size < PIECE_TEXT:
                continue
        if small:
            yield _sum(small)
            small, size = [], 0
        if own >= PIECE_TEXT:
            yield part
    if small:
        yield _sum(small)


def _sum(parts: list[_Part]) -> _Part:
    texts = [part for part in parts if isinstance(part, bytes)]
    return b"".join(texts) if len(texts) == len(parts) else sum(map(_size, parts))


def _size(part: _Part) -> int:
    return part if isinstance(part, int) else len(part)
