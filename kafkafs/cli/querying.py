"""`kafkafs sql`: a query of DuckDB on topics."""

from __future__ import annotations

import base64
import csv
import io
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkafs.cli.arguments import (
    AlreadyReported,
    jobs_option,
    moment_then,
    report_unread,
    schemas_option,
    source_options,
    source_paths,
    told_source,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.isolation import committed_option
from kafkafs.cli.options.leftovers import Leftovers, leftover_options
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import (
    NothingMatchedError,
    Partitioner,
    partition_options,
    require_choice,
    require_partitions,
)
from kafkafs.cli.options.times import moment_option, range_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.damage import report as report_damage
from kafkafs.cli.printing.losses import report_lost_partitions
from kafkafs.cli.printing.terminal.output import fail, sentence_of, write_line, write_output
from kafkafs.cli.printing.terminal.verbosity import note
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    import duckdb

    from engine.log.partition_choice import Choosable, PartitionChoice
    from engine.log.view.log_bound import LogRange
    from kafkafs.api.read_report import ReadReport
    from kafkafs.api.source_logs import SourceLogs

_ROWS = 1000
"""Rows that are fetched at a time; the columns of a table keep their widths for as many."""
_QUERY = re.compile(r"\s*(select|from|with|pivot|explain|values|\()", re.IGNORECASE)
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names that SQL takes without quotes."""
_MORE = "kafkafs sql needs DuckDB and PyArrow: pip install 'kafkafs[sql]'"


@click.command()
@click.argument("query", metavar="SQL")
@click.argument("sources", metavar="SOURCE...", nargs=-1, required=True, shell_complete=names.files)
@source_options
@partition_options
@click.option(
    "--partitioner",
    "count",
    type=Partitioner(),
    metavar="murmur2[:N]",
    help="With a condition on key, read only the partitions to which Kafka's default partitioner sends the keys, "
    "of N partitions; without N, of as many as the cluster's metadata in SOURCE says.",
)
@committed_option()
@range_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "jsonl"]),
    default="table",
    show_default=True,
    help="Output format: columns for people, CSV with a header, or a JSON object for each row.",
)
@click.option(
    "--json", "form", flag_value="jsonl", help="Print JSON lines, as --format jsonl does."
)
@click.option("--csv", "form", flag_value="csv", help="Print CSV, as --format csv does.")
@click.option(
    "--explain",
    is_flag=True,
    help="Run the query, and print what it reads of each topic in place of its rows.",
)
@click.option(
    "--allow-files",
    is_flag=True,
    help="Let the query read and write files, and load extensions.",
)
@schemas_option
@click.option(
    "--decode",
    type=click.Choice(["columns", "json"]),
    default="columns",
    show_default=True,
    help="Types of decodedKey and decodedValue: those of the topic's newest schema, or JSON.",
)
@mask_option
@leftover_options
@jobs_option
@moment_option
@verbosity_options
def sql(
    query: str,
    sources: tuple[str, ...],
    choice: PartitionChoice,
    extent: LogRange,
    schemas: tuple[str, ...],
    masks: Masks,
    decode: str,
    count: int | None,
    committed: bool,
    leftovers: Leftovers,
    **given: Any,  # noqa: ANN401 - how the query runs, and how its rows are shown
) -> None:
    """Run a query of DuckDB; each topic is a view.

    \b
    kafkafs sql 'select count(*) from orders' /var/lib/kafka/data
    kafkafs sql 'select "offset", value from "pay.eu" where partition = 0
                 and "offset" >= 4711 limit 5' /backup/broker-1 --json
    kafkafs sql 'select decodedValue.city, count(*) from orders group by all' data
    kafkafs sql "select decodedValue ->> 'city' from notes" data
    kafkafs sql 'from orders select max(timestamp)' data --explain

    Columns are those of kafkafs.open(…).scan: topic, partition, offset, timestamp,
    key, value (bytes), headers, …. decodedKey and decodedValue are what --schemas
    decodes: columns of the topic's newest schema if that is Avro or Protobuf, else
    JSON. Conditions on partition, offset, timestamp and codec, and unused columns,
    keep bytes from being read or decoded; one on key does so with --partitioner. The
    query reads topics only: no files, no network, no extensions, and it cannot write.

    Exit status: 0 all was read, 1 all but damaged places, 2 the query is refused,
    3 cannot read.
    """
    query, sources = _in_order(query, sources)
    masks.refuse(None)
    if masks and given["allow_files"]:
        raise click.UsageError(
            "--allow-files lets the query read the files that --mask hides: leave out --allow-files"
        )
    try:
        import duckdb

        from kafkafs.api.read_report import ReadReport
        from kafkafs.api.source_logs import SourceLogs
    except ImportError:
        raise NothingMatchedError(_MORE) from None
    from kafkafs.masking.policy import MaskPolicyError
    from kafkafs.tree.context import TreeOptions

    try:
        logs = SourceLogs(
            source_paths(sources), TreeOptions(schemas=schemas, mask=masks.policy, at=moment_then())
        )
    except MaskPolicyError as error:
        raise click.UsageError(str(error)) from None
    read = ReadReport()
    isolation = "read_committed" if committed else "read_uncommitted"
    views = _Views(choice, extent, decode, isolation, count, leftovers, given.pop("jobs"))
    told = leftovers.told(
        logs.source, partial(_is_read, read, choice), as_json=given["form"] == "jsonl"
    )
    with closing(logs.source), told_source(logs.source), masks.told(logs.source), told:
        with closing(duckdb.connect(":memory:")) as connection:
            try:
                _run(connection, query, logs, views, read, **given)
            except duckdb.Error as error:
                if isinstance(read.failure, ValueError):
                    raise NothingMatchedError(sentence_of(read.failure)) from error
                if read.failure is not None:
                    fail(sentence_of(read.failure))
                    raise AlreadyReported(EXIT_CANNOT_READ) from error
                raise NothingMatchedError(_said(error, query, logs)) from error
        is_lost = report_lost_partitions(logs.source, partial(_is_read, read, choice))
        unread = report_unread(logs.source.unread() + logs.source.unread_folders())
    for topic, typed in read.typed.items():
        if typed.untold is not None:
            note(
                f"{topic}: some decoded columns are null: {typed.untold} (keyNote and valueNote have all reasons,"
                " --decode json has the values)"
            )
    for topic, number in read.untimed.items():
        note(
            f"{topic}: {number} timestamps are null, which DuckDB does not hold; timestampMillis has their numbers"
        )
    for facts in read.damage:
        report_damage(facts, as_json=False)
    if read.places:
        noun = "place" if read.places == 1 else "places"
        fail(f"{read.places} damaged {noun}: the result goes without the records there")
    if unread or read.places or is_lost:
        raise click.exceptions.Exit(EXIT_CANNOT_READ if unread else EXIT_FINDINGS)


def _is_read(read: ReadReport, choice: PartitionChoice, log: Choosable) -> bool:
    """Return whether a query read the topic of a log, or of a folder beside one."""
    topic = log.topic_partition.topic
    return choice.takes_topic(topic) and any(topic == name for name, _ in read.scans)


class _Views(NamedTuple):
    """What the views of topics show.

    Attributes:
        choice: the partitions.
        extent: the range of their records.
        decode: "columns" or "json".
        isolation: "read_uncommitted" or "read_committed".
        partition_count: number of partitions for the default partitioner, 0 for that of the cluster's metadata; None for none.
        leftovers: whether they show what a broker set aside.
        threads: number of threads of a scan.
    """

    choice: PartitionChoice
    extent: LogRange
    decode: str
    isolation: str
    partition_count: int | None
    leftovers: Leftovers
    threads: int


def _run(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    logs: SourceLogs,
    views: _Views,
    read: ReadReport,
    *,
    form: str,
    explain: bool,
    allow_files: bool,
) -> None:
    _check(connection, query, allow_files=allow_files)
    connection.execute("set python_enable_replacements = false")
    connection.execute(f"set threads = {views.threads}")
    if _has_zones(connection):
        connection.execute("set timezone = 'UTC'")
    if not allow_files:
        connection.execute("set temp_directory = ''")
        connection.execute("set enable_external_access = false")
        connection.execute("set lock_configuration = true")
    _register(connection, logs, views, read, query)
    connection.execute(query)
    if explain:
        while connection.fetchmany(_ROWS):
            pass
        for line in _explained(read):
            write_line(line)
        return
    header = [column[0] for column in connection.description or ()]
    shown = {"jsonl": _print_json, "csv": _print_csv, "table": _print_table}[form]
    shown(header, _blocks(connection))
    write_output(b"", flush=True)


def _has_zones(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether DuckDB has the extension for time zones."""
    found = connection.execute(
        "select count(*) from duckdb_settings() where name = 'TimeZone'"
    ).fetchone()
    return bool(found and found[0])


def _check(connection: duckdb.DuckDBPyConnection, query: str, *, allow_files: bool) -> None:
    """Check that a query is one statement that writes nothing.

    Raises:
        NothingMatchedError: it is none.
    """
    statements = connection.extract_statements(query)
    if len(statements) != 1:
        raise NothingMatchedError(f"name one statement, not {len(statements)}")
    kind = statements[0].type.name
    if kind == "MULTI" and "pivot" in query.lower():
        return  # it first looks for the values that become columns
    if kind not in ("SELECT", "EXPLAIN", *(["COPY"] if allow_files else [])):
        way = "; --allow-files lets COPY write a file" if kind == "COPY" else ""
        raise NothingMatchedError(f"kafkafs sql only reads, and {kind} would change something{way}")


def _register(
    connection: duckdb.DuckDBPyConnection,
    logs: SourceLogs,
    views: _Views,
    read: ReadReport,
    query: str,
) -> None:
    """Make a view of each chosen topic that a query may name.

    Raises:
        NothingMatchedError: the choice takes nothing.
        SourceError: the source has no partitions.
    """
    from engine.log.partition_choice import NamedPartition
    from engine.units import TopicPartition

    choice, count = views.choice, views.partition_count
    logs.source.show_copies(each.text for each in choice.folders())
    require_choice(choice, require_partitions(logs.source))
    topics = {
        topic: [number for number, log in partitions.items() if choice.takes(log)]
        for topic, partitions in logs.topics().items()
    }
    for topic, numbers in logs.set_aside().items() if views.leftovers.are_read else ():
        aside = {each: NamedPartition.of(TopicPartition(topic, each)) for each in numbers}
        taken = {number for number, named in aside.items() if choice.takes(named)}
        topics[topic] = sorted({*topics.get(topic, ()), *taken})
    chosen = {topic: numbers for topic, numbers in topics.items() if numbers}
    store = logs.tree.context.schemas.fixed().store if views.decode == "columns" else None
    by_name: dict[str, list[str]] = {}
    for topic in chosen:
        if _may_name(query, topic.lower()):
            by_name.setdefault(topic.lower(), []).append(topic)
    if not by_name:
        return
    # Imported here: PyArrow takes half of the start.
    from kafkafs.api.topic_dataset import TopicDataset, typed_values

    for same in by_name.values():
        if len(same) > 1:
            note(
                f"SQL does not tell {' and '.join(same)} apart: none of these is a view; choose one with --topic"
            )
            continue
        topic = same[0]
        try:
            topic.encode()
        except UnicodeEncodeError:
            note(f"topic {topic} is no view: its name is not UTF-8")
            continue
        typed = typed_values(logs, topic, store)
        if typed is not None:
            read.typed[topic] = typed
        dataset = TopicDataset(
            logs,
            topic,
            chosen[topic],
            read,
            isolation=views.isolation,
            partitioner=None if count is None else {topic: count} if count else "murmur2",
            typed=typed,
            deleted=views.leftovers.asked,
            threads=views.threads,
            extent=views.extent,
        )
        connection.register(topic, dataset)


def _may_name(query: str, name: str) -> bool:
    """Return whether a query may name a view; DuckDB's own lists of views name all.

    Args:
        query: the query.
        name: the view's name, in lower case.
    """
    text = query.lower()
    return name in text or '"' in name or "information_schema" in text or "duckdb_" in text


def _in_order(query: str, sources: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the query and the sources, which may be given the other way round."""
    if not os.path.exists(query):
        return query, sources
    queries = [each for each in sources if _QUERY.match(each) and not os.path.exists(each)]
    if len(queries) != 1:
        return query, sources
    return queries[0], (query, *(each for each in sources if each != queries[0]))


def _said(error: Exception, query: str, logs: SourceLogs) -> str:
    """Return what DuckDB says, and what to write, or to name, in its place."""
    from engine.log.unmatched import CONTROLLER, is_of_controller

    said = f"{_one_line(str(error)).rstrip('.')}{_quotes(query, logs.topics())}"
    is_lone = said.startswith("Catalog Error") and is_of_controller(logs.source.partitions())
    return f"{said}; {CONTROLLER}" if is_lone else said


def _quotes(query: str, topics: Iterable[str]) -> str:
    """Return what to write in quotes, to follow DuckDB's message; "" for nothing."""
    bare = re.sub(r"""'[^']*'|"[^"]*\"""", "", query)
    names = [name for name in topics if not _BARE.fullmatch(name) and name in bare]
    if re.search(r"\boffset\b(?!\s+[0-9])", bare, re.IGNORECASE):
        names.append("offset")
    if not names:
        return ""
    quoted = " and ".join(f'"{name}"' for name in names)
    return f" Write {quoted} with the double quotes"


def _explained(read: ReadReport) -> Iterator[str]:
    """Yield what was read of each topic."""
    for topic, scan in read.scans:
        yield f"{topic}:"
        for line in scan.explain().splitlines():
            yield "  " + line.replace(", _corrupt", "")
    if not read.scans:
        yield "no topic is read"


def _blocks(connection: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    while rows := connection.fetchmany(_ROWS):
        yield rows


def _print_json(header: Sequence[str], blocks: Iterator[list[tuple[Any, ...]]]) -> None:
    from kafkafs.decode.shown_text import json_text

    for rows in blocks:
        for row in rows:
            write_line(json_text(dict(zip(header, map(_in_json, row), strict=True))))


def _print_csv(header: Sequence[str], blocks: Iterator[list[tuple[Any, ...]]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for rows in blocks:
        writer.writerows(map(_in_text, row) for row in rows)
        write_output(text.getvalue().encode())
        text.seek(0)
        text.truncate()
    write_output(text.getvalue().encode())


def _print_table(header: Sequence[str], blocks: Iterator[list[tuple[Any, ...]]]) -> None:
    from kafkafs.cli.printing.terminal.table import print_table

    is_empty = True
    for rows in blocks:
        is_empty = False
        print_table(header, [list(map(_in_text, row)) for row in rows])
    if is_empty:
        print_table(header, [])


def _in_json(value: Any) -> Any:  # noqa: ANN401 - a value of DuckDB
    """Return a value for JSON: bytes as text, or as base64 in an object; times as RFC 3339."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode()}
        case datetime():
            unit = "microseconds" if value.microsecond % 1000 else "milliseconds"
            shown = value.replace(tzinfo=None).isoformat(timespec=unit)
            return shown + ("Z" if value.tzinfo is not None else "")
        case date() | time():
            return value.isoformat()
        case dict():
            return {str(name): _in_json(each) for name, each in value.items()}
        case list() | tuple():
            return [_in_json(each) for each in value]
        case Decimal() | timedelta():
            return str(value)
        case _:
            return str(value)


def _in_text(value: Any) -> str | None:  # noqa: ANN401 - a value of DuckDB
    """Return a value as text, null as None; what is nested as JSON."""
    from kafkafs.decode.shown_text import json_text

    if value is None:
        return None
    shown = _in_json(value)
    if isinstance(value, bytes) and isinstance(shown, dict):
        return f"base64:{shown['base64']}"
    if isinstance(shown, dict | list):
        return json_text(shown)
    return str(shown).lower() if isinstance(shown, bool) else str(shown)


def _one_line(text: str) -> str:
    """Return DuckDB's message without the line that points into the query."""
    return " ".join(
        line.strip() for line in text.partition("\nLINE ")[0].splitlines() if line.strip()
    )
