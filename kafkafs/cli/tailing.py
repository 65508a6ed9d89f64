"""`kafkafs head` and `kafkafs tail`: the first and the last records of each partition, and those that come."""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import (
    Command,
    Failures,
    LostRead,
    clean_path,
    format_option,
    moment_then,
    one_source_argument,
    open_log_source,
    schemas_option,
    values_option,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.isolation import committed_option
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import partition_options, require_choice, require_partitions
from kafkafs.cli.options.times import moment_option, range_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import OutputFailed, fail, sentence_of, write_output

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import Choosable, PartitionChoice
    from engine.log.partition_log import PartitionLog
    from engine.log.view.log_bound import LogRange
    from engine.log.view.log_view import LogView
    from engine.units import Offset
    from kafkafs.decode.searching.search import Search
    from kafkafs.forms.record_format import RecordFormat
    from kafkafs.schemas.sources.known_schemas import KnownSchemas
    from kafkafs.tree.selection import Selection

_USUAL = 10
_LEAST = 256
"""Offsets that tail looks at first, from the end on; then twice as many."""
_PAUSE = 0.5
"""Seconds between two looks at a log that is followed."""


def _shared(command: Command) -> Command:
    """Add what head and tail have in common: the number of records, their choice and their form."""
    number = click.option(
        "-n",
        "-c",
        "--max-messages",
        "most",
        type=click.IntRange(min=0),
        default=_USUAL,
        show_default=True,
        metavar="N",
        help="Print so many records of each partition.",
    )
    paths = click.argument("paths", metavar="[PATH]...", nargs=-1, shell_complete=names.paths)
    for option in (
        verbosity_options, moment_option, mask_option, schemas_option, values_option, format_option, committed_option(),
        range_options, partition_options, number, paths, one_source_argument,
    ):  # fmt: skip
        command = option(command)
    return command


@click.command()
@_shared
def head(source: str, paths: tuple[str, ...], most: int, **given: Any) -> None:  # noqa: ANN401
    """Print the first records of each partition, a line each.

    \b
    kafkafs head /var/lib/kafka/data
    kafkafs head -n 3 /var/lib/kafka/data orders-0
    kafkafs head -n 1 /var/lib/kafka/data --topic 'pay*' --from 2024-01-01
    kafkafs head -n 5 /var/lib/kafka/data time/2024-01-01T10 --format '%o %k\\n'

    PATH is as for grep: a partition, or within it records, committed, one of their files,
    offset/RANGE or time/PERIOD; or time/PERIOD for all partitions. Records, masks and schemas are
    those of kafkafs cat.

    Exit status: 0 complete, 1 some of it is damaged or there are no records, 3 some of it could not be
    read.
    """
    with _Printing.opened(source, paths, **given) as printing:
        for search in printing.searches:
            printing.print_first(search, most)


@click.command()
@_shared
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with the records that are appended, until Ctrl-C."
)
def tail(
    source: str,
    paths: tuple[str, ...],
    most: int,
    follow: bool,
    **given: Any,  # noqa: ANN401
) -> None:
    """Print the last records of each partition, a line each.

    \b
    kafkafs tail /var/lib/kafka/data orders-0
    kafkafs tail -n 1 /var/lib/kafka/data --topic orders --committed
    kafkafs tail -f /var/lib/kafka/data --topic 'pay*'
    kafkafs tail -n 20 /var/lib/kafka/data --to 2024-01-01

    PATH is as for kafkafs head. With -f the command goes on with the records that a broker appends,
    and takes partitions that it creates; of a log that a broker cut or deleted it says so.

    Exit status: 0 complete, 1 some of it is damaged or there are no records, 3 some of it could not be
    read.
    """
    extent: LogRange = given["extent"]
    if follow and extent.stop is not None:
        raise click.UsageError("-f goes on with what comes: leave out the end of the range")
    if follow and moment_then() is not None:
        raise click.UsageError(
            "-f goes on with what comes, and nothing does at --at: leave one out"
        )
    if follow and any("/" in clean_path(path) for path in paths):
        raise click.UsageError("-f follows whole partitions: name these, or choose them by --topic")
    with _Printing.opened(source, paths, may_be_empty=follow, **given) as printing:
        for search in printing.searches:
            printing.print_last(search, most)
        if follow:
            write_output(b"", flush=True)
            _follow(printing, printing.ends())


def _follow(printing: _Printing, ends: dict[str, Offset]) -> None:
    """Print what is appended to the chosen partitions, until the reader of the output is gone or an interrupt comes.

    Args:
        printing: the partitions, and how records are printed.
        ends: the offset of the next record to print by partition; of a new one it is the log start.
    """
    failed: set[str] = set()
    while True:
        logs = printing.logs(_PAUSE / 2)
        for log in logs:
            try:
                view = log.view(_PAUSE / 2)
            except OSError as error:
                if log.name not in failed:
                    fail(f"{log.name}: {sentence_of(error)}")
                failed.add(log.name)
                continue
            failed.discard(log.name)
            start, end = (
                ends.get(log.name, view.log_start_offset),
                view.end(committed=printing.committed),
            )
            if view.log_end_offset < start:
                fail(f"{log.name}: its end is {view.log_end_offset} now, it was {start}")
                start = end
            if start < end:
                printing.print_first(printing.search(view, start, end), None)
            ends[log.name] = max(start, end)
        for name in ends.keys() - {log.name for log in logs}:
            fail(f"{name}: there is no such partition any more")
            del ends[name]
        _require_reader()
        time.sleep(_PAUSE)


def _require_reader() -> None:
    """Raise OutputFailed if standard output is a pipe that nobody reads."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    if any(event & select.POLLERR for _, event in poll.poll(0)):
        raise OutputFailed(BrokenPipeError())


@dataclass(frozen=True, slots=True)
class _Printing:
    """Prints records of an open source.

    Attributes:
        source: the logs.
        takes: returns whether a partition is chosen.
        searches: the chosen records, one search for each partition and path.
        known: schemas of keys and values.
        masks: what is hidden of them.
        values: form of keys and values.
        form: text of each record; None for lines.
        committed: whether records are shown as to a read_committed consumer.
        failures: what could not be read, or is damaged.
    """

    source: LogSource
    takes: Callable[[Choosable], bool]
    searches: list[Search]
    known: KnownSchemas
    masks: Masks
    values: str
    form: RecordFormat | None
    committed: bool
    failures: Failures

    @classmethod
    @contextmanager
    def opened(
        cls,
        source: str,
        paths: Sequence[str],
        *,
        choice: PartitionChoice,
        extent: LogRange,
        schemas: tuple[str, ...],
        may_be_empty: bool = False,
        **how: Any,  # noqa: ANN401 - masks, values, form and committed
    ) -> Iterator[_Printing]:
        """Open a source and find the chosen records in it; at the end exit with the status of what was met."""
        from engine.log.partition_choice import NamedPartition
        from kafkafs.cli.options.emptiness import logs_of_path, no_records, place_of
        from kafkafs.cli.searching import cut_to
        from kafkafs.schemas.sources.known_schemas import KnownSchemas
        from kafkafs.tree.selection import select

        masks: Masks = how["masks"]
        masks.refuse(how["values"], how["form"])
        named = [clean_path(path) for path in paths or [""]]
        tops = {path.partition("/")[0] for path in named}

        def takes(log: Choosable) -> bool:
            return choice.takes(log) and not tops.isdisjoint({"", "time", log.name})

        with (
            open_log_source((source,), reads=LostRead(takes)) as logs,
            masks.told(logs),
            Failures() as failures,
        ):
            require_choice(choice, require_partitions(logs))
            known = KnownSchemas(logs, schemas)
            printing = cls(logs, takes, [], known, failures=failures, **how)
            for path in named:
                found = masks.found(
                    logs, path, lambda name: select(logs, name, committed=printing.committed)
                )
                chosen = [
                    each
                    for each in cut_to(extent, found)
                    if choice.takes(NamedPartition.of(each.view.partition))
                ]
                printing.searches.extend(printing.searches_of(chosen))
                if not chosen and not may_be_empty:
                    there = filter(choice.takes, logs_of_path(logs, path))
                    failures.report_nothing(no_records(place_of(choice, extent, path), there))
            yield printing

    def logs(self, max_age: float) -> list[PartitionLog]:
        """Return the chosen partitions as they were up to `max_age` seconds ago."""
        from kafkafs.tree.selection import proper_logs

        there = self.source.partitions(max_age)
        named = list(there) if self.source.is_one_log else proper_logs(there)
        return [there[name] for name in named if self.takes(there[name])]

    def ends(self) -> dict[str, Offset]:
        """Return the offset after the printed records of each chosen partition; its end where none was printed."""
        views = {log.name: log.view_or_none() for log in self.logs(0)}
        ends = {
            name: view.end(committed=self.committed)
            for name, view in views.items()
            if view is not None
        }
        return ends | {each.view.name: each.options.to_offset for each in self.searches}

    def searches_of(self, selections: Iterable[Selection]) -> Iterator[Search]:
        """Yield the searches of selections of a path, one for each partition."""
        for view, of_view in groupby(selections, lambda each: each.view):
            parts = list(of_view)
            search = self.search(view, parts[0].from_offset, parts[-1].to_offset)
            yield replace(search, options=replace(search.options, committed=parts[0].committed))

    def search(self, view: LogView, start: Offset, stop: Offset) -> Search:
        """Return the search that finds all records from `start` on and before `stop`."""
        from kafkafs.cli.searching import search_of
        from kafkafs.tree.selection import Selection

        selection = Selection(view, start, stop, self.committed)
        found = search_of(selection, None, self.values, self.known, self.masks, only_count=False)
        return replace(found, form=self.form)

    def print_first(self, search: Search, most: int | None, passed_over: int = 0) -> None:
        """Print the first records of a search, and report the damaged places before their end.

        Args:
            search: the records.
            most: number of records; None for all.
            passed_over: number of first records that are not printed, nor the damage before them reported.
        """
        from kafkafs.cli.copying import UNREAD_KINDS
        from kafkafs.cli.printing.damage import report
        from kafkafs.decode.searching.search import Match

        if most == 0:
            return
        for segment, part in search.parts():
            for item in search.results(segment, part):
                if not isinstance(item, Match):
                    if not passed_over:
                        write_output(b"", flush=True)
                        report(item, as_json=False)
                        is_unread = item["kind"].encode() in UNREAD_KINDS
                        self.failures.note_reported(is_unread=is_unread)
                    continue
                found = item.after(passed_over)
                passed_over = max(passed_over - item.records, 0)
                found = found if most is None else found.first(most)
                write_output(found.text)
                most = None if most is None else most - found.records
                if most == 0:
                    return
        write_output(b"", flush=True)

    def print_last(self, search: Search, most: int) -> None:
        """Print the last records of a search, and report the damaged places between them."""
        low, start = search.options.from_offset, search.options.to_offset
        found, width = 0, max(most, _LEAST)
        while start > low and found < most:
            stop, start = start, max(start - width, low)
            found += _count(_between(search, start, stop))
            width *= 2
        passed_over = max(found - most, 0)
        self.print_first(
            _between(search, start, search.options.to_offset), None if most else 0, passed_over
        )


def _between(search: Search, start: Offset, stop: Offset) -> Search:
    return replace(search, options=replace(search.options, from_offset=start, to_offset=stop))


def _count(search: Search) -> int:
    """Return the number of records that a search finds."""
    from kafkafs.decode.searching.search import Match

    counting = replace(search, only_count=True)
    return sum(
        item.records
        for segment, part in counting.parts()
        for item in counting.results(segment, part)
        if isinstance(item, Match)
    )
