"""`kafkafs export`: write records to Parquet, CSV, JSON lines, Avro or Arrow files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import (
    VALUE_MODES,
    LostRead,
    jobs_option,
    open_log_source,
    schemas_option,
    source_argument,
    source_paths,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.emptiness import no_records, place_of
from kafkafs.cli.options.executors import SparkMaster, spark_options
from kafkafs.cli.options.isolation import committed_option
from kafkafs.cli.options.leftovers import Leftovers, leftover_options, takes_beside
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import (
    NothingMatchedError,
    internal_option,
    partition_options,
    require_choice,
    require_partitions,
)
from kafkafs.cli.options.times import moment_option, range_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import fail, sentence_of
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.verbosity import note
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS
from kafkafs.export.file_formats import CODECS, FORMATS

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import Choosable, PartitionChoice
    from engine.log.partition_log import PartitionLog
    from engine.log.view.log_bound import LogRange
    from engine.units import TopicPartition
    from kafkafs.export.export import ExportOptions, TaskRunner
    from kafkafs.export.summary import ExportSummary
    from kafkafs.spark.executors import Executors
    from kafkafs.table.row_options import DecoderOf


@click.command()
@source_argument
@click.argument("target", metavar="TARGET", shell_complete=names.files)
@click.option(
    "--format",
    "form",
    type=click.Choice(tuple(FORMATS)),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@click.option(
    "--columns",
    metavar="LIST",
    help="Columns of the files, comma-separated; decodedKey and decodedValue are the JSON of what "
    "--schemas decodes. Not for jsonl.",
)
@click.option(
    "--compression",
    "codec",
    type=click.Choice(CODECS),
    help="Codec of the files; by default snappy (parquet), deflate (avro), lz4 (arrow) or none.",
)
@click.option(
    "--row-group",
    "group_bytes",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Bytes of records in a row group or batch, before compression; by default 64 MiB.",
)
@click.option(
    "--chunk-size",
    "chunk_bytes",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Bytes of logs in a chunk; by default 1 GiB.",
)
@click.option(
    "--values",
    type=click.Choice(VALUE_MODES),
    help="Form of keys and values in csv (text, which is the default, or base64) and in jsonl.",
)
@schemas_option
@click.option(
    "--decode",
    type=click.Choice(["json", "columns"]),
    default="json",
    show_default=True,
    help="Types of decodedKey and decodedValue: JSON, or columns of the topic's newest schema. For parquet, "
    "arrow and avro.",
)
@mask_option
@partition_options
@range_options
@internal_option(is_default=False)
@committed_option()
@leftover_options
@click.option(
    "--on-corrupt",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="Fail at a damaged place, or list the place and continue.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@jobs_option
@moment_option
@spark_options
@verbosity_options
def export(
    sources: tuple[str, ...],
    target: str,
    spark: SparkMaster,
    **given: Any,  # noqa: ANN401
) -> None:
    """Write records to files, by topic and day.

    \b
    kafkafs export /var/lib/kafka/data /lake/kafka
    kafkafs export /backup/broker-1 /lake -t orders --from 2024-01-01
    kafkafs export data out --format jsonl --compression gzip
    kafkafs export data out --columns offset,timestamp,decodedValue
    kafkafs export data lake -t orders --decode columns
    kafkafs export data out --format csv --on-corrupt skip --json
    kafkafs export /mnt/broker-1 s3a://lake/kafka --spark yarn

    Files are written to TARGET/topic=…/date=… (dates of the timestamps, UTC). Records
    are written in chunks; each chunk is complete or absent. The same command continues
    a stopped export, and adds newer records to a finished one; nothing is written
    twice. kafkafs spark restore makes logs from an export.

    With --spark, TARGET is a path that the executors see, or a URI of a file system
    that Hadoop's client reaches.

    Exit status: 0 all is exported, 1 all but damaged or deleted records, 2 refused
    before anything was written, 3 cannot read, or damage with --on-corrupt fail.
    """
    from kafkafs.export.errors import OptionError
    from kafkafs.table.errors import LostRecordsError, RecreatedTopicError

    as_json, leftovers = given.pop("as_json"), given.pop("leftovers")
    masks: Masks = given["masks"]
    masks.refuse(given["values"] if given["form"] == "jsonl" else None)

    def is_exported(log: Choosable) -> bool:
        choice = given["choice"]
        return choice.takes(log) and _is_asked_for(log, choice, internal=given["internal"])

    with (
        open_log_source(sources, reads=LostRead(is_exported)) as source,
        masks.told(source),
        Progress("read") as progress,
        leftovers.told(source, takes_beside(source, given["choice"]), as_json=as_json),
        ExitStack() as stack,
    ):

        def start() -> Executors | None:
            return stack.enter_context(spark.executors("export", source, source_paths(sources)))

        try:
            summary = _export(
                source, sources, target, progress, leftovers, start if spark else None, **given
            )
        except OptionError as error:
            raise NothingMatchedError(str(error)) from error
        except (LostRecordsError, RecreatedTopicError) as error:
            fail(str(error))
            raise click.exceptions.Exit(EXIT_CANNOT_READ) from error
        progress.clear()
        _print(summary, as_json=as_json)


def _export(
    source: LogSource,
    sources: tuple[str, ...],
    target: str,
    progress: Progress,
    leftovers: Leftovers,
    start: Callable[[], Executors | None] | None,
    *,
    choice: PartitionChoice,
    internal: bool,
    schemas: tuple[str, ...],
    **given: Any,  # noqa: ANN401 - options of the export
) -> ExportSummary:
    try:
        from kafkafs.export.export import export as run
    except ImportError as error:
        raise _missing("pyarrow", "arrow") from error
    from engine.errors import CorruptRecordError
    from kafkafs.export.errors import NothingToExportError
    from kafkafs.export.export_task import RecordSource
    from kafkafs.table.splits.log_dir_owners import owners_by_root

    if not target.strip():
        raise click.BadParameter("name a folder", param_hint="TARGET")
    aside = {
        log.name: (log, apart)
        for log, apart in leftovers.logs(source, takes_beside(source, choice))
        if _is_asked_for(log, choice, internal=internal or not log.folder)
    }
    logs = _chosen(source, choice, internal=internal, may_be_none=bool(aside))
    options = _options(source, schemas, deleted=leftovers.asked, is_sent=start is not None, **given)
    runner, options = _runner(target, source_paths(sources), start, options)
    owners = owners_by_root(source)

    def plan(size: int) -> None:
        progress.total = size

    try:
        return run(
            RecordSource(logs, aside),
            runner,
            options,
            {partition: owners[log.root] for partition, log in logs.items()},
            plan,
            progress.advance,
        )
    except NothingToExportError as error:
        place = place_of(choice, options.extent)
        raise NothingMatchedError(no_records(place, logs.values())) from error
    except CorruptRecordError as error:
        fail(f"{sentence_of(error)}; --on-corrupt skip lists such places and continues")
        raise click.exceptions.Exit(EXIT_CANNOT_READ) from error


def _options(
    source: LogSource,
    schemas: tuple[str, ...],
    *,
    form: str,
    values: str | None,
    columns: str | None,
    masks: Masks,
    is_sent: bool,
    **given: Any,  # noqa: ANN401 - options of the export
) -> ExportOptions:
    from kafkafs.export.export import ExportOptions
    from kafkafs.schemas.sources.known_schemas import KnownSchemas

    usual = "auto" if form == "jsonl" else "text"
    allowed = {"jsonl": VALUE_MODES, "csv": ("text", "base64")}.get(form, ())
    if values is not None and values not in allowed:
        raise click.BadParameter(
            f"{form} has {' or '.join(allowed) or 'bytes as they are'}, not {values!r}",
            param_hint="--values",
        )
    if form == "avro":
        try:
            import fastavro  # noqa: F401 - here, and not when the first file is written
        except ImportError as error:
            raise _missing("fastavro", "avro") from error
    chosen = None
    if columns is not None:
        chosen = tuple(name.strip() for name in columns.split(",") if name.strip())
        if not chosen:
            raise click.BadParameter("name a column", param_hint="--columns")
    extent: LogRange = given.pop("extent")
    options = ExportOptions(
        form=form,
        values=values or usual,
        columns=chosen,
        extent=extent,
        schemas=schemas,
        **{name: value for name, value in given.items() if value is not None},
    )
    if not options.decodes and not masks:
        return options
    known = KnownSchemas(source, schemas)
    if options.decode == "columns":
        options = replace(options, store=known.fixed().store)
    decoder_of: DecoderOf = (known.fixed() if is_sent else known).decoder
    if masks.policy is not None:
        from kafkafs.records.row_mask import RowMask

        options = replace(options, mask=RowMask(masks.policy, decoder_of))
    return replace(options, decoder_of=decoder_of) if options.decodes else options


def _runner(
    target: str,
    paths: Sequence[str],
    start: Callable[[], Executors | None] | None,
    options: ExportOptions,
) -> tuple[TaskRunner, ExportOptions]:
    """Return what runs the tasks, and the options with as many jobs as it has cores."""
    from kafkafs.export.export import CHUNK_BYTES, SPLIT_BYTES, LocalTasks
    from kafkafs.export.target import LocalFiles, refuse_inside

    executors = None if start is None else start()
    if executors is None:
        files = LocalFiles(os.path.abspath(target))
        refuse_inside(files.path, paths)
        return LocalTasks(files), options
    from kafkafs.spark.exporting import ExecutorTasks
    from kafkafs.spark.jobs.files.target_files import outside_of, target_files

    found = target_files(executors.spark, target)
    outside_of(found, paths)
    chunk_bytes = options.chunk_bytes
    if chunk_bytes == CHUNK_BYTES:  # a few tasks for each core
        chunk_bytes = max(chunk_bytes, executors.cores * 4 * SPLIT_BYTES)
    options = replace(options, jobs=executors.cores, chunk_bytes=chunk_bytes)
    return ExecutorTasks(found, executors), options


def _chosen(
    source: LogSource, choice: PartitionChoice, *, internal: bool, may_be_none: bool
) -> dict[TopicPartition, PartitionLog]:
    """Return the chosen partitions; Kafka's own only if they are named or wanted.

    Raises:
        NothingMatchedError: there are none.
    """
    from engine.log.unmatched import CONTROLLER, is_of_controller

    there = require_partitions(source)
    require_choice(choice, there)
    found, left = {}, set()
    for name, log in there.items():
        partition = log.topic_partition
        if not choice.takes(log) or not (name == str(partition) or not log.folder):
            continue
        if _is_asked_for(log, choice, internal=internal or not log.folder):
            found[partition] = log
        else:
            left.add(partition.topic)
    if not found and not may_be_none:
        names = ", ".join(sorted(left))
        own = f": {names} are Kafka's own, add --internal" if left else ""
        own += f"; {CONTROLLER}" if is_of_controller(there) else ""
        raise NothingMatchedError(f"there are no partitions to export{own}")
    if left:
        note(
            f"not exported, as Kafka's own: {', '.join(sorted(left))} (--internal takes these too)"
        )
    return found


def _is_asked_for(log: Choosable, choice: PartitionChoice, *, internal: bool) -> bool:
    """Return whether a chosen partition is one of a topic of its own, or one of Kafka's own that is named or wanted."""
    from engine.log.partition_choice import TopicItem
    from engine.topics.topic_names import KAFKA_TOPICS

    topic = log.topic_partition.topic
    if internal or topic not in KAFKA_TOPICS or choice.folders():
        return True
    items = (each for each in choice.topics if isinstance(each, TopicItem))
    return any(each.text == topic and each.topic.regex is None for each in items)


def _missing(package: str, extra: str) -> NothingMatchedError:
    return NothingMatchedError(f"this export needs {package}: pip install 'kafkafs[{extra}]'")


def _print(summary: ExportSummary, *, as_json: bool) -> None:
    from kafkafs.cli.printing.job_tables import show
    from kafkafs.cli.printing.terminal.table import print_json

    if as_json:
        print_json(summary.facts())
    else:
        show(summary)
    if summary.findings:
        raise click.exceptions.Exit(EXIT_FINDINGS)
