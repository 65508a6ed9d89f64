"""`kafkafs recover`: make the log dirs of a whole cluster out of those of its dead brokers and controllers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import click

import engine
from kafkafs.cli.arguments import (
    jobs_option,
    moment_then,
    report_unread,
    source_paths,
    store_option,
)
from kafkafs.cli.completing import names
from kafkafs.cli.options.partitions import choice_of, partition_texts
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.recovery_report import print_recovery
from kafkafs.cli.printing.terminal.step_progress import StepProgress, stoppable
from kafkafs.cli.printing.terminal.verbosity import detail
from kafkafs.decode.shown_text import json_text, printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.recover.options import RecoverOptions
    from engine.recover.recovering import Recovered


@click.command()
@store_option
@click.argument(
    "paths", metavar="SOURCE... TARGET", nargs=-1, required=True, shell_complete=names.files
)
@click.option("--plan", "plans", is_flag=True, help="Write nothing, and take no TARGET; print all.")
@partition_texts
@at_option
@click.option(
    "--nodes",
    metavar="FILE",
    shell_complete=names.files,
    help="The new nodes, in TOML: id, roles, listeners and log dirs. [default: the nodes found]",
)
@click.option(
    "--metadata",
    metavar="DIR|folders",
    shell_complete=names.files,
    help="Take the metadata of this log dir, or what the folders show alone. [default: the newest]",
)
@click.option(
    "--cluster-id",
    type=click.Choice(["keep", "new"]),
    default="keep",
    show_default=True,
    help="The id of the new cluster.",
)
@click.option(
    "--quorum",
    type=click.Choice(["static", "dynamic"]),
    default="static",
    show_default=True,
    help="How the controllers find each other.",
)
@click.option(
    "--replication",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Replicas of each partition. [default: as before; never more than brokers]",
)
@click.option(
    "--min-isr",
    type=click.Choice(["keep", "fit"]),
    default="keep",
    show_default=True,
    help="fit: lower min.insync.replicas to the number of replicas.",
)
@click.option(
    "--transactions",
    type=click.Choice(["close", "leave"]),
    default="close",
    show_default=True,
    help="close: abort also the transactions of which no disk shows an end.",
)
@click.option(
    "--no-power-loss",
    is_flag=True,
    help="No machine lost its power: tell also what was not acknowledged.",
)
@click.option("--hold", is_flag=True, help="Stop retention and expiry until you lift it.")
@click.option(
    "--kafka-version",
    default="4.4.0",
    show_default=True,
    metavar="VERSION",
    help="Release that will run the cluster.",
)
@jobs_option
@click.option("--json", "as_json", is_flag=True, help="Print the report as one JSON object.")
@verbosity_options
def recover(paths: tuple[str, ...], plans: bool, **given: Any) -> None:  # noqa: ANN401
    """Make the log dirs of a whole cluster, ready to start, out of those of its dead nodes.

    SOURCE is every log dir that is left of the cluster: of brokers and controllers, whole or damaged, also several copies
    of one. It is never changed. TARGET must not exist, or be empty; it gets node-N/ for each node, and START.txt. It is
    complete or absent, and checked before it gets its name. Of each partition the best copy counts, and the others fill
    its holes; records of a losing leader are set aside in TARGET/aside. Transactions are ended as any disk shows, and
    offsets of groups are put inside the logs. With --at all is as it was then.

    \b
    kafkafs recover --plan /disks/broker-1 /disks/broker-2 /disks/broker-3
    kafkafs recover /disks/broker-1 /disks/broker-2 /disks/broker-3 /srv/recovered
    kafkafs recover --nodes nodes.toml --hold /disks/broker-* /srv/recovered
    kafkafs recover --at before-delete:orders /disks/broker-* /srv/recovered

    Exit status: 0 nothing is lost, 1 something is doubtful or lost (the first line says it), 2 refused, 3 cannot read.
    """
    sources, target = (paths, None) if plans else (paths[:-1], paths[-1])
    if not sources:
        raise click.UsageError("name at least one SOURCE and a TARGET (or --plan)")
    result = _recovered(source_paths(sources), target, _options(given))
    report = result.report
    if given["as_json"]:
        click.echo(json_text({"target": result.target, **report}, indent=1))
    else:
        print_recovery(report, result.target)
    if report_unread(result.unread, is_filled=not report["totals"]["lost"]):
        raise click.exceptions.Exit(EXIT_CANNOT_READ)
    if report["losesSomething"] or report["refusal"]:
        raise click.exceptions.Exit(EXIT_FINDINGS)


def _recovered(sources: list[str], target: str | None, options: RecoverOptions) -> Recovered:
    from engine.rebuild.errors import RebuildRefusedError
    from engine.recover.errors import RecoverRefusedError
    from engine.recover.recovering import recover as run

    for path in sources:
        detail(f"reading {path}")
    logging.getLogger(engine.__name__).addHandler(
        logging.NullHandler()
    )  # the report has the losses
    try:
        with stoppable(), StepProgress() as progress:
            return run(sources, target, options, advance=progress.advance)
    except (RecoverRefusedError, RebuildRefusedError) as error:
        raise click.UsageError(printable(f"{error.reason}: {error.hint}")) from None


def _options(given: dict[str, Any]) -> RecoverOptions:
    from engine.recover.options import RecoverOptions

    choice_of(given["chosen_topics"], given["chosen_partitions"])  # complains
    return RecoverOptions(
        topics=given["chosen_topics"],
        partitions=given["chosen_partitions"],
        metadata=given["metadata"],
        nodes=given["nodes"],
        cluster_id=given["cluster_id"],
        quorum=given["quorum"],
        replication=given["replication"],
        fits_min_isr=given["min_isr"] == "fit",
        leaves_open=given["transactions"] == "leave",
        no_power_loss=given["no_power_loss"],
        hold=given["hold"],
        kafka_version=given["kafka_version"],
        at=moment_then(),
        jobs=given["jobs"],
    )
