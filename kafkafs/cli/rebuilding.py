"""`kafkafs rebuild`: make a new log dir with the same offsets, which a broker loads."""

from __future__ import annotations

import logging
import os
import pwd
from typing import TYPE_CHECKING, Any

import click

import engine
from kafkafs.cli.arguments import (
    jobs_option,
    moment_then,
    report_unread,
    source_options,
    source_paths,
)
from kafkafs.cli.options.partitions import choice_of, pairs_of, partition_texts, rename_option
from kafkafs.cli.options.times import moment_option, range_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.rebuild_report import closing_lines, print_partitions
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.step_progress import StepProgress, stoppable
from kafkafs.cli.printing.terminal.table import print_json
from kafkafs.cli.printing.terminal.verbosity import detail
from kafkafs.decode.shown_text import json_text, printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.log.view.log_bound import LogRange
    from engine.rebuild.options import RebuildOptions


@click.command()
@click.argument("source", metavar="SOURCE", required=False)
@source_options
@click.argument("target", metavar="TARGET", required=False)
@click.option(
    "--mode",
    type=click.Choice(["salvage", "broker"]),
    default="salvage",
    show_default=True,
    help="salvage: keep every good batch. broker: do what a broker does when it starts.",
)
@moment_option
@range_options
@click.option(
    "--whole-batches", is_flag=True, help="With --from and --to: keep batches at the edges whole."
)
@click.option(
    "--allow-empty",
    is_flag=True,
    help="Accept a result without records, or a cut past the end of every log.",
)
@partition_texts
@rename_option
@click.option(
    "--topic-id",
    "topic_ids",
    multiple=True,
    metavar="TOPIC=ID",
    help="Give a topic (by its new name) this id.",
)
@click.option(
    "--merge",
    multiple=True,
    metavar="OTHER",
    help="Take the best copy of each batch, also from this replica's log dir. Repeatable.",
)
@click.option(
    "--merge-strangers",
    is_flag=True,
    help="Merge also a log of another cluster, or with another topic id.",
)
@click.option("--deleted", is_flag=True, help="Bring back records of .deleted files.")
@click.option("--below-log-start", is_flag=True, help="Bring back records below the log start.")
@click.option("--no-meta-properties", is_flag=True, help="Leave out meta.properties.")
@click.option(
    "--clean/--unclean",
    "clean",
    default=None,
    help="With --mode broker: load as after a clean stop, or as after a crash.",
)
@click.option(
    "--owner", metavar="USER", help="Owner of the files; for root, by default the owner of SOURCE."
)
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be written.")
@click.option(
    "--verify", metavar="LOG-DIR", help="Compare a rebuilt log dir with its manifest instead."
)
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
@verbosity_options
def rebuild(source: str | None, target: str | None, **given: Any) -> None:  # noqa: ANN401
    """Make a new log dir TARGET out of SOURCE, with the same offsets, that a broker loads.

    \b
    kafkafs rebuild /var/lib/kafka/data /var/lib/kafka/rebuilt --dry-run
    kafkafs rebuild /var/lib/kafka/data /var/lib/kafka/rebuilt
    kafkafs rebuild broker1/data rebuilt --merge broker2/data --merge broker3/data
    kafkafs rebuild /var/lib/kafka/data cut -t orders --from yesterday --to 120000
    kafkafs rebuild /var/lib/kafka/data before -t orders --at before-delete:orders
    kafkafs rebuild --verify /var/lib/kafka/rebuilt

    SOURCE is never changed. TARGET must not exist, or be empty. It is complete or absent: it is written beside
    its place, synced, read back, then renamed. kafkafs-rebuild.json in it lists the sources and the losses.

    Exit status: 0 complete, 1 something is missing or was cut off (see the output), or no broker starts on it, 2 refused (also when no
    record would be left, without --allow-empty), 3 something could not be read, and the rest is written; or
    nothing could be read or written.
    """
    if given["verify"] is not None:
        if source is not None:
            raise click.UsageError("--verify takes no SOURCE and TARGET")
        _verify(given["verify"], as_json=given["as_json"])
        return
    if source is None or (target is None and not given["dry_run"]):
        raise click.UsageError("name a SOURCE and a TARGET (or --dry-run)")
    _rebuild(source, None if given["dry_run"] else target, given)


def _rebuild(source: str, target: str | None, given: dict[str, Any]) -> None:
    from engine.rebuild.errors import RebuildRefusedError
    from engine.rebuild.rebuilding import rebuild as run
    from engine.rebuild.target.rebuilt import EmptyResultError

    options = _options(source, given)
    for path in (*source_paths((source,)), *given["merge"]):
        detail(f"reading {path}")
    logging.getLogger(engine.__name__).addHandler(
        logging.NullHandler()
    )  # the report has the losses
    try:
        with stoppable(), StepProgress() as progress:
            result = run(
                source_paths((source,)),
                target,
                options,
                merge=given["merge"],
                advance=progress.advance,
            )
    except EmptyResultError as error:
        if not given["as_json"]:
            print_partitions(error.result)
        if report_unread(error.result.unread):
            say(f"kafkafs: {printable(f'{error.reason}: {error.hint}')}", err=True)
            raise click.exceptions.Exit(EXIT_CANNOT_READ) from None
        raise click.UsageError(printable(f"{error.reason}: {error.hint}")) from None
    except RebuildRefusedError as error:
        raise click.UsageError(printable(f"{error.reason}: {error.hint}")) from None
    if given["as_json"]:
        click.echo(json_text(result.manifest, indent=1))
    else:
        print_partitions(result)
        for line in closing_lines(result, source, is_merged=bool(given["merge"])):
            say(line)
    is_filled = not result.lost_something and all(
        each.path.endswith(".log") for each in result.unread
    )
    if report_unread(result.unread, is_filled=is_filled) and not is_filled:
        raise click.exceptions.Exit(EXIT_CANNOT_READ)
    if result.lost_something or result.no_start is not None:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _options(source: str, given: dict[str, Any]) -> RebuildOptions:
    from engine.checkpoint.base64_uuid import canonical_uuid
    from engine.rebuild.options import Mode, RebuildOptions

    choice_of(given["chosen_topics"], given["chosen_partitions"])  # complains
    extent: LogRange = given["extent"]
    if moment_then() is not None and extent.stop is not None:
        raise click.UsageError("--at and --to both say where the logs end: leave one out")
    topic_ids = pairs_of("--topic-id", given["topic_ids"])
    for name, value in topic_ids.items():
        try:
            topic_ids[name] = canonical_uuid(value)
        except ValueError as error:
            raise click.UsageError(f"--topic-id {name}: {error}") from None
    return RebuildOptions(
        mode=Mode(given["mode"]),
        topics=given["chosen_topics"],
        partitions=given["chosen_partitions"],
        renames=pairs_of("--rename", given["renames"]),
        topic_ids=topic_ids,
        at=moment_then(),
        start=extent.start,
        stop=extent.stop,
        whole_batches=given["whole_batches"],
        deleted=given["deleted"],
        below_log_start=given["below_log_start"],
        meta_properties=not given["no_meta_properties"],
        clean=given["clean"],
        allow_empty=given["allow_empty"],
        merge_strangers=given["merge_strangers"],
        owner=_owner(given["owner"], source),
        jobs=given["jobs"],
    )


def _owner(name: str | None, source: str) -> tuple[int, int] | None:
    """Return user and group id for the files: of --owner, or of the source for root; None leaves them."""
    if name is not None:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            raise click.UsageError(f"--owner {name}: there is no such user") from None
        return entry.pw_uid, entry.pw_gid
    if os.geteuid() != 0:
        return None
    from engine.files.tries import tried

    try:
        path = source_paths((source,))[0]
        status = tried(lambda: os.stat(path), path)
    except OSError:
        return None
    return status.st_uid, status.st_gid


def _verify(log_dir: str, *, as_json: bool) -> None:
    from engine.rebuild.target.manifest import compare, read_manifest

    found = list(compare(log_dir, read_manifest(log_dir)))
    for each in found:
        if as_json:
            print_json(each._asdict())
        else:
            say(printable(f"{each.path}: {each.reason}"))
    if found:
        raise click.exceptions.Exit(EXIT_FINDINGS)
    if not as_json:
        say(printable(f"{log_dir} matches its manifest"))
