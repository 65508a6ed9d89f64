"""`kafkafs dump`: print the content of files of a log directory."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import Command, jobs_option, schemas_option, source_options, source_paths
from kafkafs.cli.completing import names
from kafkafs.cli.options.masking import Masks, mask_option
from kafkafs.cli.options.partitions import partition_options
from kafkafs.cli.options.times import range_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import write_output
from kafkafs.cli.printing.terminal.progress import Progress
from kafkafs.cli.printing.terminal.verbosity import detail

if TYPE_CHECKING:
    from engine.log.partition_choice import PartitionChoice
    from engine.log.view.log_bound import LogRange
    from kafkafs.dump.dump_options import DumpOptions

STRING_DECODERS = (
    "org.apache.kafka.tools.api.StringDecoder",
    "kafka.serializer.StringDecoder",
)
_DECODER_HELP = {
    "offsets-decoder": "Decode records as those of __consumer_offsets.",
    "transaction-log-decoder": "Decode records as those of __transaction_state.",
    "cluster-metadata-decoder": "Decode records as those of __cluster_metadata.",
    "remote-log-metadata-decoder": "Decode records as those of __remote_log_metadata.",
    "share-group-state-decoder": "Decode records as those of __share_group_state.",
}


def _decoder_options(command: Command) -> Command:
    for name, text in reversed(_DECODER_HELP.items()):
        command = click.option(f"--{name}", is_flag=True, help=text)(command)
    return command


@click.command()
@click.argument("paths", metavar="[SOURCE|FILE]...", nargs=-1, shell_complete=names.files)
@source_options
@click.option(
    "--files",
    "file_list",
    metavar="LIST",
    help="Dump these files, comma-separated as for DumpLogSegments.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["dump-log", "jsonl"]),
    default="dump-log",
    show_default=True,
    help="Output format: the text of DumpLogSegments, or JSON lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines, as --format jsonl does.")
@partition_options
@range_options
@click.option("--print-data-log", is_flag=True, help="Print keys and payloads.")
@click.option("--deep-iteration", is_flag=True, help="Print records, not only batches.")
@click.option(
    "--skip-record-metadata", is_flag=True, help="Print only key and payload of a record."
)
@click.option(
    "--key-decoder-class",
    "--value-decoder-class",
    "string_decoders",
    multiple=True,
    metavar="CLASS",
    help="Accept Kafka's StringDecoder only; implies --print-data-log.",
)
@_decoder_options
@click.option("--verify-index-only", is_flag=True, help="Check indexes, and do not print them.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Check only the size and the last entry of indexes."
)
@click.option(
    "--max-bytes", type=click.IntRange(min=0), metavar="N", help="Read at most N bytes of each log."
)
@click.option(
    "--max-message-size",
    type=click.IntRange(min=0),
    metavar="N",
    help="Largest batch, in bytes, that an index entry may point to. [default: 5242880]",
)
@schemas_option
@mask_option
@jobs_option
@verbosity_options
def dump(
    paths: tuple[str, ...],
    file_list: str | None,
    form: str,
    as_json: bool,
    choice: PartitionChoice,
    extent: LogRange,
    string_decoders: tuple[str, ...],
    schemas: tuple[str, ...],
    masks: Masks,
    jobs: int,
    **flags: bool | int | None,
) -> None:
    """Print the content of files of a log directory: Kafka's DumpLogSegments, and more.

    \b
    kafkafs dump data/orders-0/00000000000000000000.log --print-data-log
    kafkafs dump /var/lib/kafka/data/orders-0 --from 35 --to 40 --json
    kafkafs dump /var/lib/kafka/data/__consumer_offsets-7 --offsets-decoder
    kafkafs dump '/var/lib/kafka/data/*/*.timeindex' --verify-index-only
    kafkafs dump /var/lib/kafka/data --json | jq -c 'select(.error)'

    Takes files, partition folders, log dirs and patterns. Reads .log, .index, .timeindex, .txnindex,
    .snapshot and .checkpoint files, also those called .deleted, .cleaned or .swap, and the checkpoint,
    metadata and properties files beside them. Continues after damage. Errors are printed on standard
    error; with --json they are lines {"error": ...}. With --json, "decoded" is the key and value of
    a topic of Kafka's own, or of a record with a schema; a file alone needs --schemas PATH for that.
    """
    from kafkafs.dump.dump import dump_json, dump_text
    from kafkafs.dump.dump_schemas import dump_schemas
    from kafkafs.dump.inputs import expand
    from kafkafs.dump.report import DumpReport

    arguments = [*source_paths(paths), *(file_list.split(",") if file_list else ())]
    if not arguments:
        raise click.UsageError("name a file, a partition's folder or a log dir")

    def complain(line: bytes) -> None:
        write_output(b"", flush=True)
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()

    flags["print_data_log"] = bool(flags["print_data_log"] or _are_strings(string_decoders))
    is_json = as_json or form == "jsonl"
    masks.refuse(None)
    if masks and not is_json:
        raise click.UsageError(
            "--mask needs --json: the text of DumpLogSegments has bytes of records"
        )
    if not is_json and not {*schemas} <= {"auto", "none"}:
        raise click.UsageError(
            "--schemas PATH needs --json: the text is that of DumpLogSegments, which has no schemas"
        )
    run = dump_json if is_json else dump_text
    with (
        masks.fields_told(),
        dump_schemas(arguments, schemas if is_json else ()) as known,
        Progress("dumped", quiet=sys.stdout.isatty()) as progress,
    ):
        options = replace(_options(flags), schemas=known, mask=masks.policy)
        report = DumpReport(write_output, complain, begin=_tell, advance=progress.advance)
        inputs = expand(arguments, extent if any(extent) else None, choice)
        run(inputs, options, report, jobs)
        write_output(b"", flush=True)
        status = 3 if report.unreadable else int(report.findings > 0)
        if status:
            raise click.exceptions.Exit(status)


def _tell(shown: str) -> None:
    detail(f"reading {shown}")


def _are_strings(classes: tuple[str, ...]) -> bool:
    """Return whether StringDecoder is named; records are shown as text anyway.

    Raises:
        click.BadParameter: another class is named.
    """
    for name in classes:
        if name not in STRING_DECODERS:
            raise click.BadParameter(
                f"cannot load {name}; only {STRING_DECODERS[0]} is built in",
                param_hint="decoder class",
            )
    return bool(classes)


def _options(flags: dict[str, bool | int | None]) -> DumpOptions:
    from kafkafs.dump.dump_options import DECODERS, DumpOptions

    chosen = (topic for name, topic in DECODERS.items() if flags.pop(name.replace("-", "_")))
    decoders = list(chosen)
    given = {name: value for name, value in flags.items() if value is not None}
    return DumpOptions(decoder=decoders[0] if decoders else None, **given)  # type: ignore[arg-type]
