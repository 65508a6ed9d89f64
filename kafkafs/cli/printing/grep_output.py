"""Output of `kafkafs grep`: lines, counts, names of partitions, or only what matches."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

import click

from engine.log.segment.scan import BatchRun, ScanItem
from engine.verdict.log_runs import is_large
from engine.workers import Workers
from kafkafs.cli.printing.damage import report
from kafkafs.cli.printing.terminal.output import say, write_output
from kafkafs.decode.searching.search import DamageFacts, Match, Search
from kafkafs.decode.searching.search_context import ContextSearch
from kafkafs.decode.shown_text import json_text, printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.segment.log_segment import LogSegment
    from kafkafs.cli.printing.terminal.progress import Progress
    from kafkafs.spark.executors import Executors

Item: TypeAlias = Match | DamageFacts | int
"""Result of a worker: matches, a damaged place, or a count of read bytes."""
Part: TypeAlias = "tuple[Search, LogSegment, ScanItem]"

_LINE = re.compile(rb'^\{"topic":"([^"]*)","partition":(-?\d+),"offset":(-?\d+),', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrepFlags:
    """What is printed; see the options of the command."""

    only_count: bool = False
    only_names: bool = False
    only_matching: bool = False
    numbered: bool = False
    quiet: bool = False
    as_json: bool = False
    max_count: int | None = None
    before: int = 0
    after: int = 0

    @property
    def makes_lines(self) -> bool:
        """Whether the lines of records are printed."""
        return not (self.only_count or self.only_names or self.only_matching or self.quiet)

    @property
    def prints_whole_records(self) -> bool:
        """Whether records are printed, with nothing beside them, or nothing is printed at all."""
        is_other = self.only_count or self.only_names or self.only_matching or self.numbered
        return not (is_other or self.before or self.after)

    @property
    def hides_origin(self) -> bool:
        """Whether what is printed does not say which record it is from."""
        return self.only_matching and not (self.numbered or self.as_json or self.only_names)


class GrepOutput:
    """Prints what searches find, and ends the command."""

    def __init__(self, flags: GrepFlags) -> None:
        self.flags = flags
        self._named: set[bytes] = set()
        """Partitions whose names are printed."""

    def run(
        self,
        searches: list[Search],
        jobs: int,
        progress: Progress,
        executors: Executors | None = None,
    ) -> None:
        """Print the results, and exit with the status of the search unless it is 0."""
        flags = self.flags
        total = places = 0
        with closing(self._items(searches, jobs, executors)) as items:
            for item in items:
                if isinstance(item, int):
                    progress.advance(item)
                elif isinstance(item, dict):
                    places += 1
                    progress.clear()
                    report(item, as_json=flags.as_json)
                else:
                    match = item if self._has_context else self._cut(item, total)
                    total += match.records
                    self._print(match.text)
                    is_enough = flags.max_count is not None and total >= flags.max_count
                    if flags.quiet or (is_enough and not self._has_context):
                        break
        write_output(b"", flush=True)
        if flags.only_count and not flags.quiet and not flags.only_names:
            click.echo(f'{{"count":{total}}}' if flags.as_json else total)
        if flags.quiet and total:
            sys.exit(0)
        if places:
            if not flags.as_json:
                noun = "place" if places == 1 else "places"
                say(f"kafkafs: not all was searched: {places} damaged {noun}", err=True)
            sys.exit(EXIT_CANNOT_READ)
        if not total:
            sys.exit(EXIT_FINDINGS)

    @property
    def _has_context(self) -> bool:
        return bool(self.flags.makes_lines and (self.flags.before or self.flags.after))

    def _items(
        self, searches: list[Search], jobs: int, executors: Executors | None
    ) -> Generator[Item, None, None]:
        """Yield the results of the searches in order; `jobs` threads search, or one if records have a context."""
        if self._has_context:
            groups = [list(group) for _, group in groupby(searches, name_of)]
            yield from self._in_context(groups, executors)
            return
        if executors is not None:
            from kafkafs.spark.searching import searched

            yield from searched(executors, self._work, searches, self._is_wanted)
            return
        with Workers(jobs, "grep") as workers:
            yield from workers.flat_map(
                self._work, self._parts(searches), lambda part: is_large(part[1:])
            )

    def _in_context(
        self, groups: Sequence[Sequence[Search]], executors: Executors | None
    ) -> Iterator[Item]:
        """Yield the results of the searches of each partition."""
        wanted = self.flags.before, self.flags.after, self.flags.max_count
        if executors is not None:
            from kafkafs.spark.searching import searched_in_context

            yield from searched_in_context(executors, groups, *wanted)
            return
        context = ContextSearch(*wanted)
        for group in groups:
            yield from context.results(group)
            if context.has_enough:
                return

    def _parts(self, searches: Iterable[Search]) -> Iterator[Part]:
        for search in searches:
            for part in search.parts():
                if not self._is_wanted(search):
                    break
                yield (search, *part)

    def _is_wanted(self, search: Search) -> bool:
        """Return whether more of a search can change what is printed."""
        return not (self.flags.only_names and name_of(search) in self._named)

    def _work(self, part: Part) -> Iterator[Item]:
        """Search a part of a log."""
        search, segment, item = part
        if isinstance(item, BatchRun):
            yield int(item.table["size"].sum())
        if not self.flags.only_matching or self.flags.only_count or self.flags.only_names:
            for result in search.results(segment, item):
                if isinstance(result, Match) and self.flags.only_names:
                    yield Match(name_of(search), result.records)
                else:
                    yield result
            return
        for found in search.found(segment, item):
            if isinstance(found, dict):
                yield found
            elif not search.is_inverted:
                lines = (self._line(search, *each) for each in found)
                yield Match(b"".join(lines), 1)

    def _line(self, search: Search, offset: int, field: str, content: bytes) -> bytes:
        """Return the line for a part of a record that matches."""
        topic, partition = search.view.partition
        text = content.decode("utf-8", "backslashreplace")
        if self.flags.as_json:
            facts: dict[str, object] = {"topic": topic, "partition": partition, "offset": offset}
            facts |= {"field": field, "match": text}
            facts |= {} if search.apart is None else {"leftover": search.apart.name}
            return f"{json_text(facts)}\n".encode("utf-8", "backslashreplace")
        name = f"{topic}-{partition}" if search.apart is None else search.apart.name
        prefix = f"{printable(name)}:{offset}:" if self.flags.numbered else ""
        return f"{prefix}{printable(text)}\n".encode("utf-8", "backslashreplace")

    def _cut(self, match: Match, total: int) -> Match:
        """Return a match without the lines of more records than are wanted."""
        most = None if self.flags.max_count is None else self.flags.max_count - total
        return match if most is None else match.first(most)

    def _print(self, text: bytes) -> None:
        if self.flags.quiet or (self.flags.only_count and not self.flags.only_names):
            return
        if self.flags.only_names:
            if text in self._named:
                return
            self._named.add(text)
            name = text.decode("utf-8", "backslashreplace")
            shown = json_text({"partition": name}) if self.flags.as_json else printable(name)
            write_output(f"{shown}\n".encode())
        elif self.flags.numbered and not self.flags.only_matching:
            write_output(_LINE.sub(rb"\1-\2:\3:\g<0>", text))
        else:
            write_output(text)


def name_of(search: Search) -> bytes:
    """Return the name of the partition, or of the file or folder beside it, that is searched."""
    name = str(search.view.partition) if search.apart is None else search.apart.name
    return name.encode("utf-8", "surrogateescape")
