"""`kafkafs diff`: what changed between two moments of a source, or differs between two sources."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import json_option, source_argument, source_paths, told_source
from kafkafs.cli.options.times import MOMENT_HELP, moment_of, zone_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.table import print_json
from kafkafs.exit_codes import EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.cut.changed import Changed
    from engine.cut.moment import Moment
    from engine.log.log_directory import LogSource


_KEYS = ("id", "schemaType", "state", "schema")


@click.command()
@source_argument
@zone_option
@click.option("--at", "moments", multiple=True, metavar="TIME|RECORD", help=MOMENT_HELP)
@json_option
@verbosity_options
def diff(sources: tuple[str, ...], moments: tuple[str, ...], as_json: bool) -> None:
    """Print what changed between two moments of SOURCE, or differs between two sources.

    \b
    kafkafs diff /var/lib/kafka/data --at -2h --at -1h
    kafkafs diff /var/lib/kafka/data --at before-delete:orders
    kafkafs diff /broker1/data,/broker2/data /backup/data --json

    One --at is compared with now. With two SOURCEs the first is compared with the second, at the same moment
    if there is one --at. Log dirs of one source are separated by commas.
    Compared are topics with their ids, log starts and ends, configs, ACLs, users, quotas, features,
    committed offsets of groups and schemas of the topic _schemas.

    Exit status: 0 nothing differs, 1 something does, 2 usage, 3 a source cannot be read.
    """
    from engine.cut.changed import differences
    from engine.cut.opening import open_at

    if len(sources) + max(len(moments), 1) > 3 or len(sources) + len(moments) < 2:
        raise click.UsageError("give SOURCE and one or two --at, or two SOURCEs")
    times = [moment_of(text) for text in moments]
    is_with_now = not times or (len(sources) == 1 and len(times) == 1)
    ats: list[Moment | None] = [*times, None] if is_with_now else [*times]
    paths = [source_paths((each,)) for each in sources]
    with (
        closing(open_at(paths[0], ats[0])) as before,
        closing(open_at(paths[-1], ats[-1])) as after,
        told_source(before),
        told_source(after),
    ):
        found = list(differences(before, after, _schemas))
    if as_json:
        for change in found:
            print_json(change.facts())
    else:
        _print(found)
    if found:
        click.get_current_context().exit(EXIT_FINDINGS)


def _schemas(source: LogSource) -> dict[str, dict[str, object]]:
    """Return the schemas of a source by subject and version."""
    from kafkafs.schemas.catalog import facts
    from kafkafs.schemas.sources.source_schemas import SourceSchemas

    schemas = SourceSchemas(source).store().schemas
    rows = map(facts, sorted(schemas, key=lambda each: not each.is_gone))  # one in use wins
    return {f"{row['subject']} {row['version']}": {key: row[key] for key in _KEYS} for row in rows}


def _print(found: list[Changed]) -> None:
    from kafkafs.cli.printing.terminal.table import print_table

    rows = [(each.name, each.kind, _text(each.before), _text(each.after)) for each in found]
    if rows:
        print_table(("NAME", "KIND", "BEFORE", "AFTER"), rows)


def _text(value: object) -> str:
    """Return a value in short words, between which a narrow terminal breaks lines."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
