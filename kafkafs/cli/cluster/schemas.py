"""`kafkafs schemas`: the schemas of a registry, without the registry."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import (
    json_option,
    moment_then,
    one_source_argument,
    open_log_source,
    source_paths,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say, write_output
from kafkafs.cli.printing.terminal.table import moment, print_json, print_table, replaying, warn
from kafkafs.decode.shown_text import printable, printable_lines
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from kafkafs.schemas.schema import Candidate, Schema
    from kafkafs.schemas.store import SchemaStore

_HEADER = ("SUBJECT", "VERSION", "ID", "TYPE", "STATE", "SINCE", "REFERENCES")


@click.command()
@one_source_argument
@click.argument("subject", required=False, shell_complete=names.subjects)
@click.option("--id", "id_", type=click.IntRange(min=0), help="Print the schema with this id.")
@click.option("--context", metavar="NAME", help="Context of --id, as .eu; by default all.")
@click.option(
    "--export",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write all schemas, and requests that import them, to a new directory.",
)
@click.option(
    "--registry-topic",
    metavar="TOPIC",
    help="Topic of the registry.  [default: _schemas]",
)
@at_option
@json_option
@verbosity_options
def schemas(
    source: str,
    subject: str | None,
    id_: int | None,
    context: str | None,
    directory: Path | None,
    registry_topic: str | None,
    as_json: bool,
) -> None:
    """List the schemas in the topic _schemas of SOURCE, print one of them, or export all.

    \b
    kafkafs schemas /var/lib/kafka/data
    kafkafs schemas /var/lib/kafka/data orders-value
    kafkafs schemas /var/lib/kafka/data orders-value/3 > order.avsc
    kafkafs schemas /var/lib/kafka/data --id 7 --at 2024-01-01T10:30:00Z
    kafkafs schemas /var/lib/kafka/data --export schemas/

    SUBJECT alone is its newest version. SOURCE may also be a file or a directory
    of schemas. States: live, deleted (softly: a registry still serves the id),
    gone (for good: a registry that starts now does not have it). --json prints
    the texts too.

    Exit status: 0 all schemas are shown, 1 a record or file has none, an id has
    several, or nothing was found, 3 a file cannot be read.
    """
    if (subject is not None) + (id_ is not None) + (directory is not None) > 1:
        raise click.UsageError("SUBJECT, --id and --export cannot be combined")
    if context is not None and id_ is None:
        raise click.UsageError("--context needs --id: the context is that of the id")
    store = _opened(source, registry_topic)
    if id_ is not None:
        is_fine = _show_id(store.by_id(context, id_), id_, as_json=as_json)
    elif subject is not None:
        is_fine = _show_version(store, subject, as_json=as_json)
    else:
        is_fine = bool(store) or _nothing("no schemas were found")
        if directory is not None:
            is_fine &= _export(store, directory)
        else:
            _list(store.schemas, as_json=as_json)
        is_fine &= not warn((), map(str, store.problems))
    if not is_fine:
        click.get_current_context().exit(EXIT_FINDINGS)


def _opened(source: str, registry_topic: str | None) -> SchemaStore:
    from kafkafs.schemas.files.schema_files import read_schema_files
    from kafkafs.schemas.registry.registry_records import SCHEMAS_TOPIC
    from kafkafs.schemas.sources.opened import is_log_source
    from kafkafs.schemas.sources.source_schemas import SourceSchemas
    from kafkafs.schemas.store import SchemaStore

    topic = registry_topic or SCHEMAS_TOPIC
    paths = source_paths((source,))
    files = [path for path in paths if not is_log_source(path)]
    stores = [_then(read_schema_files(path)) for path in files]
    if len(files) < len(paths):
        log_dirs = [path for path in paths if path not in files]
        with open_log_source((",".join(log_dirs),)) as logs, replaying() as advance:
            found = SourceSchemas(logs, topic, advance)
            if not found.exists:
                _nothing(f"there is no topic {topic}; --registry-topic names another")
            stores.insert(0, found.store())
    return SchemaStore.union(stores)


def _then(store: SchemaStore) -> SchemaStore:
    """Return the schemas of files at the moment of --at."""
    at = moment_then()
    if at is None:
        return store
    if at.time is None:
        raise click.UsageError("--at is a time where SOURCE is files of schemas")
    return store.as_of(at.time)


def _list(found: Iterable[Schema], *, as_json: bool) -> None:
    from kafkafs.schemas.catalog import facts, state_of

    if as_json:
        for schema in found:
            print_json(facts(schema))
        return
    rows = [
        (
            schema.subject,
            schema.version,
            schema.id,
            schema.kind,
            state_of(schema),
            moment(schema.origin.timestamp),
            ",".join(f"{each.subject}/{each.version}" for each in schema.references),
        )
        for schema in found
    ]
    print_table(_HEADER, rows)


def _show_version(store: SchemaStore, text: str, *, as_json: bool) -> bool:
    from kafkafs.schemas.topic_subjects import NEWEST_VERSION

    subject, version = text, NEWEST_VERSION
    if text not in store.subjects():
        before, slash, number = text.rpartition("/")
        if slash and number.isascii() and number.isdigit():
            subject, version = before, int(number)
    schema = store.version(subject, version)
    if schema is None:
        from engine.log.unmatched import known_names

        there = known_names(store.subjects(), "subject", subject)
        return _nothing(f"no schema is {text}; {there}")
    _print(schema, as_json=as_json)
    return True


def _show_id(found: Sequence[Candidate], id_: int, *, as_json: bool) -> bool:
    if not found:
        return _nothing(f"no schema has the id {id_}")
    for candidate in found if as_json else found[:1]:
        _print(candidate.schema, as_json=as_json)
    if len(found) == 1:
        return True
    sure = [candidate for candidate in found if candidate.is_of_time]
    others = ", ".join(candidate.schema.name for candidate in found[1:])
    known = "the only one in use" if len(sure) == 1 else "perhaps not the one"
    warn((), [f"{found[0].schema.name} is {known}; the id also belongs to {others}"])
    return len(sure) == 1


def _print(schema: Schema, *, as_json: bool) -> None:
    """Print a schema: its text as it is, or on a terminal without characters that affect it."""
    from kafkafs.schemas.catalog import facts

    if as_json:
        print_json(facts(schema))
        return
    text = schema.text
    if sys.stdout.isatty():
        text = printable_lines(text)
    write_output((text if text.endswith("\n") else f"{text}\n").encode())


def _export(store: SchemaStore, directory: Path) -> bool:
    from kafkafs.schemas.exporting import exported_files, import_requests, left_out_sentences

    found = import_requests(store)
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        if not directory.is_dir() or any(directory.iterdir()):
            raise click.UsageError(f"{directory} is there; name a new directory") from None
    files = list(exported_files(store, found))
    for name, data in files:
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    count = len(store)
    say(f"{count} schemas in {printable(str(directory))}, {len(files)} files", err=True)
    return not warn((), left_out_sentences(found))


def _nothing(sentence: str) -> bool:
    """Say that there is nothing to print; return False."""
    say(printable(f"kafkafs: {sentence}"), err=True)
    return False
