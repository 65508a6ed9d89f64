"""What a search looks for in a record: patterns in its key, value and headers, all of which must be found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from engine import kernel
from engine.lines.internal_fields import internal_texts
from engine.log.segment.scan import BatchRun
from engine.topics.decoded_record import TopicDecoder
from engine.topics.internal_topics import decoder_for
from kafkafs.decode.search import ALL_FIELDS, Query
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.rows.key_filter import Indices, KeyFilter

if TYPE_CHECKING:
    from engine.columns.columns import Columns

Headers: TypeAlias = list[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """What is looked for; a regular expression on the stored bytes each, or text when `fixed`.

    Attributes:
        anywhere: in the key, the value, a header's key or a header's value.
        key, value: there.
        headers: (name, pattern) of headers that must be there; any value when the pattern is None.
        fixed: the patterns are text.
        ignore_case: letters of either case match.
    """

    anywhere: str | None = None
    key: str | None = None
    value: str | None = None
    headers: tuple[tuple[str, str | None], ...] = ()
    fixed: bool = False
    ignore_case: bool = False

    def checked(self) -> None:
        """Raises OptionError when a pattern is no regular expression."""
        _ = list(self.queries())

    def is_empty(self) -> bool:
        """Whether every record is found."""
        return not (self.headers or any(each is not None for each in self._patterns()))

    def queries(self) -> Iterator[Query]:
        """What is looked for in key, value and anywhere."""
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


class SearchFilter(KeyFilter):
    """Finds the records of one partition's batches that a predicate is true of.

    In Kafka's own topics keys and values are searched as what they say, in JSON.

    Args:
        predicate: checked.
        topic: of the partition.
        keys: what else keys must be.
    """

    def __init__(self, predicate: Predicate, topic: str, keys: KeyFilter | None) -> None:
        self._predicate = predicate
        self._queries = [each for each in predicate.queries() if each.fields != {"headers"}]
        self._headers = [
            (name.encode(), self._header_pattern(pattern)) for name, pattern in predicate.headers
        ]
        self._decoder: TopicDecoder | None = decoder_for(topic) if topic.startswith("__") else None
        self._keys = keys
        needles = [] if self._decoder is not None else [each.needle for each in predicate.queries()]
        self._needles = [needle for needle in (*needles, *(n for n, _ in self._headers)) if needle]

    def narrowed(self, run: BatchRun) -> BatchRun:
        """The batches of a run that may hold a record that is found; most others need no decoding."""
        for needle in self._needles:
            if not len(run.table):
                break
            hits = kernel.contains(
                run.buffer, run.table, 0, len(run.table), needle, start_position=run.start_position
            )
            run = run._replace(table=run.table[hits != 0])
        return run

    def matching(self, columns: Columns, indices: Indices) -> Indices:
        """Those of some records that are found."""
        if self._keys is not None:
            indices = self._keys.matching(columns, indices)
        found = [index for index in indices.tolist() if self._is_found(columns, index)]
        return np.array(found, np.int64)

    def _is_found(self, columns: Columns, index: int) -> bool:
        key, value = columns.key(index), columns.value(index)
        if self._decoder is not None:
            key, value = internal_texts(self._decoder, key, value)
        headers: Headers = []
        if columns.headers_count[index]:
            headers = [(header.key, header.value) for header in columns.headers(index)]
        return all(_holds(query, key, value, headers) for query in self._queries) and all(
            _has_header(headers, name, pattern) for name, pattern in self._headers
        )

    def _header_pattern(self, pattern: str | None) -> re.Pattern[bytes] | None:
        if pattern is None:
            return None
        given = Predicate(
            value=pattern, fixed=self._predicate.fixed, ignore_case=self._predicate.ignore_case
        )
        return next(given.queries()).pattern


def _holds(query: Query, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
    search = query.pattern.search
    if "value" in query.fields and value is not None and search(value):
        return True
    if "key" in query.fields and key is not None and search(key):
        return True
    return "headers" in query.fields and any(
        search(name) or (said is not None and search(said)) for name, said in headers
    )


def _has_header(headers: Headers, name: bytes, pattern: re.Pattern[bytes] | None) -> bool:
    return any(
        key == name and (pattern is None or (value is not None and pattern.search(value)))
        for key, value in headers
    )
