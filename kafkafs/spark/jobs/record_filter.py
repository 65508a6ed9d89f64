"""Search conditions on a record: patterns in its key, value and headers, which must all match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine import kernel
from engine.lines.line_decoder import decoded_texts
from engine.lines.record_line import internal_decoder
from engine.log.segment.scan import BatchRun
from kafkafs.decode.searching.search import ALL_FIELDS, Query
from kafkafs.records.conditions import KeyFilter
from kafkafs.records.visible import Indices
from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from engine.columns.columns import Columns

Headers: TypeAlias = list[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """Search conditions; each is a regular expression on the stored bytes, or text when `fixed`.

    Attributes:
        anywhere: matches the key, the value, a header's key or a header's value.
        key, value: match the key and the value.
        headers: (name, pattern) of required headers; None as pattern matches any value.
        fixed: whether patterns are plain text.
        ignore_case: whether to ignore the case of letters.
    """

    anywhere: str | None = None
    key: str | None = None
    value: str | None = None
    headers: tuple[tuple[str, str | None], ...] = ()
    fixed: bool = False
    ignore_case: bool = False

    def checked(self) -> None:
        """Raise OptionError when a pattern is not a regular expression."""
        _ = list(self.queries())

    def is_empty(self) -> bool:
        """Return whether every record matches."""
        return not (self.headers or any(each is not None for each in self._patterns()))

    def queries(self) -> Iterator[Query]:
        """Yield the queries of all patterns."""
        for fields, pattern in zip(
            (ALL_FIELDS, frozenset({"key"}), frozenset({"value"})), self._patterns(), strict=True
        ):
            if pattern is not None:
                yield self._query(pattern, fields)
        for _, pattern in self.headers:
            if pattern is not None:
                yield self._query(pattern, frozenset({"headers"}))

    def _patterns(self) -> tuple[str | None, str | None, str | None]:
        return self.anywhere, self.key, self.value

    def _query(self, pattern: str, fields: frozenset[str]) -> Query:
        try:
            return Query.compile(
                pattern, fixed=self.fixed, ignore_case=self.ignore_case, fields=fields
            )
        except re.error as error:
            raise OptionError(f"not a regular expression: {error}: {pattern}") from error


class SearchFilter:
    """Filter for the records of one partition that match a predicate.

    In Kafka's own topics the JSON of decoded keys and values is searched.

    Args:
        predicate: checked predicate.
        topic: topic of the partition.
        keys: further filter on keys.
    """

    def __init__(self, predicate: Predicate, topic: str, keys: KeyFilter | None) -> None:
        self._predicate = predicate
        self._queries = [each for each in predicate.queries() if each.fields != {"headers"}]
        self._headers = [
            (name.encode(), self._header_pattern(pattern)) for name, pattern in predicate.headers
        ]
        self._decoder = internal_decoder(topic)
        self._keys = keys
        literals = [] if self._decoder else [each.literal for each in predicate.queries()]
        self._needles = [(each.content, each.fold) for each in literals if each.content]
        self._needles += [(name, False) for name, _ in self._headers if name]

    def narrowed(self, run: BatchRun) -> BatchRun:
        """Return the batches of a run that may have a match; most other batches need no decoding."""
        for needle, fold in self._needles:
            if not len(run.table):
                break
            hits = kernel.contains(
                run.buffer,
                run.table,
                0,
                len(run.table),
                needle,
                start_position=run.start_position,
                fold=fold,
            )
            run = run.with_table(run.table[hits != 0])
        return run

    def matching(self, columns: Columns, indices: Indices) -> Indices:
        """Return the matching ones of some records."""
        if self._keys is not None:
            indices = self._keys.matching(columns, indices)
        found = [index for index in indices.tolist() if self._is_found(columns, index)]
        return np.array(found, np.int64)

    def _is_found(self, columns: Columns, index: int) -> bool:
        key, value = columns.key(index), columns.value(index)
        keys: Sequence[bytes | None] = [key]
        values: Sequence[bytes | None] = [value]
        if self._decoder is not None:
            timestamp = int(columns.timestamp[index])
            keys, values = decoded_texts(self._decoder, key, value, (), timestamp)
        headers: Headers = []
        if columns.headers_count[index]:
            headers = [(header.key, header.value) for header in columns.headers(index)]
        return all(_holds(query, keys, values, headers) for query in self._queries) and all(
            _has_header(headers, name, pattern) for name, pattern in self._headers
        )

    def _header_pattern(self, pattern: str | None) -> re.Pattern[bytes] | None:
        if pattern is None:
            return None
        given = Predicate(
            value=pattern, fixed=self._predicate.fixed, ignore_case=self._predicate.ignore_case
        )
        return next(given.queries()).pattern


def _holds(
    query: Query, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Headers
) -> bool:
    search = query.pattern.search
    if "value" in query.fields and any(each is not None and search(each) for each in values):
        return True
    if "key" in query.fields and any(each is not None and search(each) for each in keys):
        return True
    return "headers" in query.fields and any(
        search(name) or (said is not None and search(said)) for name, said in headers
    )


def _has_header(headers: Headers, name: bytes, pattern: re.Pattern[bytes] | None) -> bool:
    return any(
        key == name and (pattern is None or (value is not None and pattern.search(value)))
        for key, value in headers
    )
