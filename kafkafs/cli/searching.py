"""`kafkafs grep`: search keys, values and headers of records."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from typing import TypeAlias

import click

from engine import kernel
from engine.log.log_directory import LogSource
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import BatchRun, ScanItem
from engine.memory_gate import LARGE
from engine.workers import Workers
from kafkafs.cli.arguments import (
    clean_path,
    jobs_option,
    one_source_argument,
    open_log_source,
    values_option,
)
from kafkafs.cli.options.partitions import require_partitions, with_known_partitions
from kafkafs.cli.printing.output import write_output
from kafkafs.cli.printing.progress import Progress
from kafkafs.decode.search import ALL_FIELDS, DamageFacts, Match, Query, Search
from kafkafs.decode.shown_text import json_text, printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS
from kafkafs.tree.selection import Selection, select

Item: TypeAlias = Match | DamageFacts | int
"""Result of a worker: matches, a damaged place, or a count of read bytes."""
Part: TypeAlias = tuple[Search, LogSegment, ScanItem]


@click.command()
@click.argument("pattern")
@one_source_argument
@click.argument("path", default="", required=False)
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="Take PATTERN as plain text.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore the case of letters.")
@click.option(
    "-c", "--count", "only_count", is_flag=True, help="Print only the number of matching records."
)
@click.option(
    "-m",
    "--max-count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N matching records.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; set only the exit status.")
@click.option(
    "--field",
    "fields",
    multiple=True,
    type=click.Choice(sorted(ALL_FIELDS)),
    help="Search only this field. Repeatable.",
)
@click.option("--committed", is_flag=True, help="Read as a read_committed consumer.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print damage as JSON lines, and with -c the count as JSON.",
)
@jobs_option
@values_option
def grep(
    pattern: str,
    source: str,
    path: str,
    fixed: bool,
    ignore_case: bool,
    only_count: bool,
    max_count: int | None,
    quiet: bool,
    fields: tuple[str, ...],
    committed: bool,
    as_json: bool,
    jobs: int | None,
    values: str,
) -> None:
    """Print the lines of records with a key, value or header that matches PATTERN.

    \b
    kafkafs grep refund /var/lib/kafka/data
    kafkafs grep -F '"id":4711' /var/lib/kafka/data orders-0
    kafkafs grep -i timeout /var/lib/kafka/data orders-0/time/2024-01-01T10
    kafkafs grep -c --field headers trace-9f /var/lib/kafka/data orders-0/offset/1000..2000

    PATH is a partition, or within it records, committed, one of their files, offset/RANGE or
    time/PERIOD; or time/PERIOD for all partitions. PATTERN is a Python regular expression on the
    stored bytes; in Kafka's internal topics, such as __consumer_offsets, on the JSON that keys and
    values decode to (on the bytes with --values base64). Patterns with look-around or references
    to groups are slower. Damaged places are reported on standard error and skipped.

    Exit status: 0 records matched, 1 none did, 3 a part could not be searched, whatever matched elsewhere
    (with -q, 0 as soon as a record matches).
    """
    try:
        query = Query.compile(
            pattern, fixed=fixed, ignore_case=ignore_case, fields=frozenset(fields) or ALL_FIELDS
        )
    except re.error as error:
        raise click.BadParameter(f"{error}; use -F for plain text", param_hint="PATTERN") from error
    with open_log_source((source,)) as logs, Progress("searched", quiet=quiet) as progress:
        require_partitions(logs)
        selections = with_known_partitions(
            logs, path, lambda: select(logs, clean_path(path), committed=committed)
        )
        if not selections:
            say_empty(logs, clean_path(path))
        searches = [
            search_of(each, query, values, only_count=only_count or quiet) for each in selections
        ]
        total = places = 0
        for item in results(searches, jobs or os.cpu_count() or 1):
            if isinstance(item, int):
                progress.advance(item)
            elif isinstance(item, dict):
                places += 1
                report(item, as_json=as_json)
            else:
                text, count = cut(item, None if max_count is None else max_count - total)
                total += count
                if not (only_count or quiet):
                    write_output(text)
                if quiet or (max_count is not None and total >= max_count):
                    break
        write_output(b"", flush=True)
        if only_count and not quiet:
            click.echo(f'{{"count":{total}}}' if as_json else total)
        if quiet and total:
            sys.exit(0)
        if places:
            if not as_json:
                noun = "place" if places == 1 else "places"
                click.echo(f"kafkafs: not all was searched: {places} damaged {noun}", err=True)
            sys.exit(EXIT_CANNOT_READ)
        if not total:
            sys.exit(EXIT_FINDINGS)


def say_empty(source: LogSource, path: str) -> None:
    """Report on standard error that there is nothing to search."""
    log = source.partitions().get(path.split("/")[0])
    there = ""
    view = None if log is None else log.view_or_none()
    if log is not None and view is not None:
        first, end = view.log_start_offset, view.log_end_offset
        there = f"; {log.name} has " + (f"offsets {first} to {end - 1}" if first < end else "none")
    sentence = f"kafkafs: there are no records in {path or 'the source'}{there}"
    click.echo(printable(sentence), err=True)


def cut(match: Match, most: int | None) -> tuple[bytes, int]:
    """Return at most `most` lines of a match, and their number."""
    if most is None or match.records <= most:
        return match
    lines = match.text.split(b"\n", most)
    return b"\n".join(lines[:most]) + b"\n", most


def report(facts: DamageFacts, *, as_json: bool) -> None:
    """Print a damaged place on standard error."""
    if as_json:
        click.echo(json_text({"error": facts}), err=True)
    else:
        where = printable(f"{facts['file']}: byte {facts['position']}")
        click.echo(f"kafkafs: {where}: {facts['reason']} ({facts['length']} bytes)", err=True)


def search_of(selection: Selection, query: Query, values: str, *, only_count: bool) -> Search:
    """Return the search of a selection's records."""
    topic, partition = selection.view.partition
    options = kernel.LineOptions(
        topic,
        partition,
        values=values,
        committed=selection.committed,
        log_start_offset=selection.view.log_start_offset,
        from_offset=selection.from_offset,
        to_offset=selection.to_offset,
    )
    return Search(selection.view, query, options, only_count=only_count)


def results(searches: list[Search], jobs: int) -> Iterator[Item]:
    """Yield the results of the searches in order; `jobs` threads search."""
    parts = ((each, *part) for each in searches for part in each.parts())
    with Workers(jobs, "grep") as workers:
        yield from workers.flat_map(work, parts, is_large)


def work(part: Part) -> Iterator[Item]:
    """Search a part of a log."""
    search, segment, item = part
    if isinstance(item, BatchRun):
        yield int(item.table["size"].sum())
    yield from search.results(segment, item)


def is_large(part: Part) -> bool:
    """Return whether the bytes of a part may be as large as the budget of a batch."""
    item = part[2]
    return isinstance(item, BatchRun) and len(item.buffer) > LARGE
