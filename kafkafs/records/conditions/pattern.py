"""Records with a match of a regular expression in their key, value or headers; of decoded ones, in their JSON.

The kernel marks the records with a field that has a literal of the pattern and that the pattern's automaton accepts. For a
pattern without an automaton, `re` is run on the records that have the literal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from engine import kernel
from engine.budgets import MiB
from engine.coding.layout import Buffer
from engine.columns.columns import RECORD_ROW, Column
from engine.columns.matching import Automaton, Fields
from engine.lines.json_text import Values
from engine.lines.line_decoder import LineDecoder, decoded_texts
from kafkafs.records.conditions.regex_automaton import automaton_of
from kafkafs.records.conditions.required_literal import RequiredLiteral, required_literal
from kafkafs.records.conditions.utf8_patterns import compile_pattern
from kafkafs.records.rows import OPAQUE_ROW, are_marked, chosen
from kafkafs.records.visible import Indices, Marks

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
        return cls.of(compiled, fields)

    @classmethod
    def of(cls, pattern: re.Pattern[bytes], fields: frozenset[str]) -> Query:
        """Make a query for a compiled pattern."""
        literal = required_literal(pattern)
        return cls(pattern, fields, literal, None if literal.is_all else automaton_of(pattern))

    @property
    def bits(self) -> Fields:
        """The fields, for the kernel."""
        bits = Fields(0)
        for name in self.fields:
            bits |= Fields[name.upper()]
        return bits


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
