"""`kafkafs grep`: search keys, values and headers of records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import click

from engine import kernel
from engine.log.log_directory import LogSource
from engine.log.partition_choice import Choosable, NamedPartition, PartitionChoice
from engine.log.view.log_bound import LogRange
from engine.log.view.log_view import LogView
from kafkafs.cli.arguments import (
    LostRead,
    clean_path,
    format_option,
    jobs_option,
    open_log_source,
    schemas_option,
    source_options,
    source_paths,
    values_option,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.conditions import condition_of
from kafkafs.cli.options.emptiness import logs_of_path, no_records, place_of
from kafkafs.cli.options.executors import SparkMaster, spark_options
from kafkafs.cli.options.isolation import committed_option
from kafkafs.cli.options.leftovers import Leftovers, leftover_options, takes_beside
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import (
    partition_options,
    require_choice,
    require_partitions,
)
from kafkafs.cli.options.times import moment_option, range_options
from kafkafs.cli.options.verbosity import quiet_option, verbose_option
from kafkafs.cli.printing.grep_output import GrepFlags, GrepOutput
from kafkafs.cli.printing.terminal.output import fail
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.verbosity import verbosity
from kafkafs.decode.searching.apart import Apart
from kafkafs.decode.searching.search import Search
from kafkafs.exit_codes import EXIT_CANNOT_READ
from kafkafs.forms.record_format import RecordFormat
from kafkafs.records.conditions.known_records import wanted_offsets
from kafkafs.records.conditions.pattern import ALL_FIELDS, Query
from kafkafs.records.conditions.where import Where
from kafkafs.schemas.sources.known_schemas import KnownSchemas
from kafkafs.tree.selection import Selection, select, select_in

COUNT = click.IntRange(min=0)
_SAYS_ORIGIN = "--deleted says in each line where a record is from: leave out --format, and use -o with -n or --json"


@click.command()
@click.argument(
    "arguments",
    metavar="PATTERN SOURCE [PATH]...",
    nargs=-1,
    required=True,
    shell_complete=names.words_of_grep,
)
@source_options
@click.option(
    "-e",
    "--regexp",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Search for this instead of the argument PATTERN. Repeatable: any may match.",
)
@click.option(
    "--where",
    "condition",
    metavar="EXPR",
    help="Print only records of whose line this expression of jq is true, such as"
    """ '.value.amount > 100 and .key == "k7"'. PATTERN is then given with -e, or left out.""",
)
@click.option("-F", "--fixed-strings", "fixed", is_flag=True, help="Take PATTERN as plain text.")
@click.option(
    "-E", "--extended-regexp", is_flag=True, help="No effect: patterns are extended ones anyway."
)
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore the case of letters.")
@click.option("-w", "--word-regexp", "is_word", is_flag=True, help="Match whole words only.")
@click.option(
    "-v",
    "--invert-match",
    "is_inverted",
    is_flag=True,
    help="Select the records that do not match.",
)
@click.option(
    "-c", "--count", "only_count", is_flag=True, help="Print only the number of matching records."
)
@click.option(
    "-l",
    "--files-with-matches",
    "only_names",
    is_flag=True,
    help="Print only the names of partitions with a match.",
)
@click.option(
    "-o",
    "--only-matching",
    "only_matching",
    is_flag=True,
    help="Print only what matches, each on a line of its own.",
)
@click.option(
    "-n",
    "--line-number",
    "numbered",
    is_flag=True,
    help="Print PARTITION:OFFSET: before each line, as grep prints FILE:LINE:.",
)
@click.option(
    "-m",
    "--max-count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop after N matching records.",
)
@click.option(
    "-A", "--after-context", "after", type=COUNT, metavar="N", help="Print N records after, too."
)
@click.option(
    "-B", "--before-context", "before", type=COUNT, metavar="N", help="Print N records before, too."
)
@click.option(
    "-C",
    "--context",
    "around",
    type=COUNT,
    default=0,
    metavar="N",
    help="Print N records before and after, in offset order of the partition.",
)
@quiet_option("Print no results, no progress and no notes; set the exit status.")
@verbose_option
@click.option(
    "--field",
    "fields",
    multiple=True,
    type=click.Choice(sorted(ALL_FIELDS)),
    help="Search only this field. Repeatable.",
)
@partition_options
@partial(range_options, letter="")  # -o is grep's
@committed_option()
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print damage, and with -c, -l and -o the results, as JSON lines.",
)
@format_option
@jobs_option
@values_option
@schemas_option
@mask_option
@leftover_options
@moment_option
@spark_options
def grep(
    arguments: tuple[str, ...],
    patterns: tuple[str, ...],
    fixed: bool,
    ignore_case: bool,
    is_word: bool,
    fields: tuple[str, ...],
    choice: PartitionChoice,
    extent: LogRange,
    committed: bool,
    jobs: int,
    values: str,
    schemas: tuple[str, ...],
    form: RecordFormat | None,
    condition: str | None,
    masks: Masks,
    leftovers: Leftovers,
    spark: SparkMaster,
    **shown: Any,  # noqa: ANN401 - what is printed
) -> None:
    """Print the lines of records with a key, value or header that matches PATTERN.

    \b
    kafkafs grep refund /var/lib/kafka/data
    kafkafs grep -F '"id":4711' /var/lib/kafka/data orders-0 orders-1
    kafkafs grep -i timeout /var/lib/kafka/data --topic 'pay*' --from -1h
    kafkafs grep -c --field headers trace-9f /var/lib/kafka/data orders-0
    kafkafs grep -e refund -e Zürich -C 2 /var/lib/kafka/data time/2024-01-01
    kafkafs grep --where '.value.total > 990' /var/lib/kafka/data orders-0
    kafkafs grep --deleted 4711 /var/lib/kafka/data --topic orders
    kafkafs grep refund /var/lib/kafka/data --format '%t %p %o %k\\n'

    PATH is a partition, or within it records, committed, one of their files,
    offset/RANGE or time/PERIOD; or time/PERIOD for all partitions. PATTERN is a
    Python regular expression on characters; fields need not be UTF-8: . also
    matches a byte that is not, and \\xff is that byte. In Kafka's internal topics,
    such as __consumer_offsets, it is tried on the JSON that keys and values decode
    to (on the bytes with --values base64). Where a key or value has a schema, it is
    tried on its bytes and on that JSON. Patterns with look-around or references to
    groups are slower. Damaged places are reported on standard error and skipped.

    With --where the arguments are SOURCE [PATH]...; give a PATTERN, if any, with -e.
    With --mask a PATTERN is for topics without a mask, and --where sees masked lines.

    With --deleted the search goes on in files and folders beside the logs: records
    that compaction or retention removed, and those of deleted topics.

    Exit status: 0 records matched, 1 none did, 3 a part could not be searched,
    whatever matched elsewhere (with -q, 0 as soon as a record matches).
    """
    if not patterns and condition is None:
        patterns, arguments = arguments[:1], arguments[1:]
    if not arguments:
        raise click.UsageError("name a PATTERN and a SOURCE")
    if not patterns and (shown["is_inverted"] or shown["only_matching"]):
        raise click.UsageError("-v and -o are about a PATTERN: name one with -e")
    source, *paths = arguments
    how = {"fixed": fixed, "ignore_case": ignore_case, "is_word": is_word}
    query = _compiled(patterns, fields, **how) if patterns else None
    is_inverted, around = shown.pop("is_inverted"), shown.pop("around")
    shown.pop("extended_regexp")
    shown |= {name: around for name in ("before", "after") if shown[name] is None}
    output = GrepOutput(GrepFlags(**shown, quiet=verbosity().is_quiet))
    _refuse(output.flags, form, leftovers)
    masks.refuse(values, form)
    named = [clean_path(path) for path in paths or [""]]

    def is_sought(log: Choosable) -> bool:
        tops = {path.partition("/")[0] for path in named}
        return choice.takes(log) and not tops.isdisjoint({"", "time", log.name})

    with (
        condition_of(condition, 1 if spark else jobs) as where,
        open_log_source((source,), reads=LostRead(is_sought, EXIT_CANNOT_READ)) as logs,
        masks.told(logs),
        Progress("searched") as progress,
        ExitStack() as stack,
    ):
        require_choice(choice, require_partitions(logs))
        takes = takes_beside(logs, choice, named)
        stack.enter_context(leftovers.told(logs, takes, as_json=output.flags.as_json))
        selections: list[tuple[Selection, Apart | None]] = [
            (each, None)
            for path in named
            for each in _selections(logs, path, choice, extent, masks, committed=committed)
        ]
        selections += [
            (each, apart)
            for view, apart in leftovers.views(logs, takes)
            for path in named
            for each in cut_to(extent, select_in(view, path, committed=committed))
        ]
        if where is not None and not (output.flags.before or output.flags.after):
            selections = list(_cut_to_condition(where, selections))
        masks.refuse_search(each.view.partition.topic for each, _ in selections if query)
        known, is_counting = KnownSchemas(logs, schemas), not output.flags.makes_lines
        searches = [
            replace(
                search_of(each, query, values, known, masks, only_count=is_counting),
                is_inverted=is_inverted,
                form=form,
                where=where,
                apart=apart,
            )
            for each, apart in selections
        ]
        executors = stack.enter_context(spark.executors("grep", logs, source_paths((source,))))
        output.run(searches, jobs, progress, executors)


def _refuse(flags: GrepFlags, form: RecordFormat | None, leftovers: Leftovers) -> None:
    """Refuse options that contradict each other."""
    if form is not None and not flags.prints_whole_records:
        raise click.UsageError("--format prints records: leave out -c, -l, -o, -n, -A, -B and -C")
    if leftovers.are_read and (form is not None or flags.hides_origin):
        raise click.UsageError(_SAYS_ORIGIN)


def _compiled(patterns: Iterable[str], fields: Iterable[str], **how: bool) -> Query:
    try:
        return Query.compile(*patterns, **how, fields=frozenset(fields) or ALL_FIELDS)
    except re.error as error:
        raise click.BadParameter(f"{error}; use -F for plain text", param_hint="PATTERN") from error


def _selections(
    logs: LogSource,
    path: str,
    choice: PartitionChoice,
    extent: LogRange,
    masks: Masks,
    *,
    committed: bool,
) -> list[Selection]:
    """Return what is to be searched of a path; say what there is where that is nothing."""
    of_path = masks.found(logs, path, lambda name: select(logs, name, committed=committed))
    chosen = [
        each
        for each in cut_to(extent, of_path)
        if choice.takes(NamedPartition.of(each.view.partition))
    ]
    if not chosen:
        place = place_of(choice, extent, path)
        fail(no_records(place, filter(choice.takes, logs_of_path(logs, path))))
    return chosen


def cut_to(extent: LogRange, selections: list[Selection]) -> Iterator[Selection]:
    """Yield the parts of the selections that are in a range; times are looked up once in a log."""
    bounds: dict[LogView, tuple[int, int]] = {}
    for each in selections:
        if not any(extent):
            yield each
            continue
        if each.view not in bounds:
            bounds[each.view] = extent.offsets_in(each.view, 0, each.view.log_end_offset)
        start, stop = bounds[each.view]
        start, stop = max(start, each.from_offset), min(stop, each.to_offset)
        if start < stop:
            yield each._replace(from_offset=start, to_offset=stop)


def _cut_to_condition(
    where: Where, selections: Iterable[tuple[Selection, Apart | None]]
) -> Iterator[tuple[Selection, Apart | None]]:
    """Yield the parts of the selections that may hold a record of which a condition is true."""
    for each, apart in selections:
        view = each.view
        end = min(each.to_offset, view.log_end_offset)
        start, stop = wanted_offsets(where.truth, view.partition, each.from_offset, end)
        if start < stop:
            yield each._replace(from_offset=start, to_offset=stop), apart


def search_of(
    selection: Selection,
    query: Query | None,
    values: str,
    known: KnownSchemas,
    masks: Masks,
    *,
    only_count: bool,
) -> Search:
    """Return the search of a selection's records."""
    topic, partition = selection.view.partition
    options = kernel.LineOptions(
        topic,
        partition,
        values=values,
        decode_with=known.decoder(topic),
        committed=selection.committed,
        log_start_offset=selection.view.log_start_offset,
        from_offset=selection.from_offset,
        to_offset=selection.to_offset,
        mask=masks.of(topic),
    )
    return Search(selection.view, query, options, only_count=only_count)
