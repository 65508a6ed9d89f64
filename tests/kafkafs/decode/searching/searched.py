"""A search of a whole log in one thread."""

from __future__ import annotations

from collections.abc import Iterator

from engine import kernel
from engine.log.view.log_view import LogView
from kafkafs.decode.searching.search import DamageFacts, Match, Search
from kafkafs.records.conditions.pattern import Query


def search(
    view: LogView, query: Query, options: kernel.LineOptions
) -> Iterator[Match | DamageFacts]:
    """The matching records of a range in log order, some at a time, and the places that cannot be searched."""
    whole = Search(view, query, options)
    for segment, part in whole.parts():
        yield from whole.results(segment, part)
