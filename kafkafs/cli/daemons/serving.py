"""`kafkafs serve`: a read-only broker over log dirs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import Address, address_of, moment_then, source_argument, source_paths
from kafkafs.cli.options.client_security import ClientSecurity, security_options
from kafkafs.cli.options.partitions import pairs_of, partition_options, rename_option
from kafkafs.cli.options.times import at_option
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.terminal.output import say, write_line
from kafkafs.cli.printing.terminal.verbosity import verbosity
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_USAGE

if TYPE_CHECKING:
    import ssl

    from engine.log.log_directory import LogSource
    from engine.log.partition_choice import PartitionChoice
    from kafkafs.serve.budgets import ServeBudgets
    from kafkafs.serve.security.login import Logins
    from kafkafs.serve.server import Listening

_STOP_SECONDS = 30.0


def _stop(context: click.Context, _: click.Parameter, address: tuple[str, int] | None) -> None:
    """End a server on this machine, and exit."""
    if address is None or context.resilient_parsing:
        return
    from kafkafs.serve.control.control_client import NoServerError, stop

    try:
        is_ended = stop(*address, _STOP_SECONDS)
    except (NoServerError, OSError) as error:
        say(f"kafkafs: {error}", err=True)
        context.exit(EXIT_CANNOT_READ)
    if not is_ended:
        say(f"kafkafs: the server still runs after {_STOP_SECONDS:.0f} seconds", err=True)
        context.exit(EXIT_CANNOT_READ)
    context.exit(0)


def _listening_too(
    _: click.Context, option: click.Parameter, text: str | None
) -> tuple[tuple[str, int], tuple[str, int] | None] | None:
    """Return the address of a second listener, and what its clients are told."""
    if text is None:
        return None
    here, equals, told = text.partition("=")
    found, advertised = address_of(here), address_of(told)
    if found is None or (equals and advertised is None):
        raise click.BadParameter(
            f"{text!r} is not HOST:PORT or HOST:PORT=HOST:PORT, such as 0.0.0.0:9094=kafka-old.example:9094",
            param=option,
        )
    return found, advertised


@click.command()
@source_argument
@click.option(
    "--listen",
    type=Address(),
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Address for clients; port 0 for a free one. Without --password-file or --tls-client-ca "
    "whoever reaches the address reads the records.",
)
@click.option(
    "--advertise",
    type=Address(),
    metavar="HOST:PORT",
    help="Address that clients are told to connect to; by default the one under which each client "
    "reached the server.",
)
@click.option(
    "--also-listen",
    callback=_listening_too,
    metavar="HOST:PORT[=HOST:PORT]",
    help="A second address for clients, and behind = what they are told to connect to: as for clients inside and "
    "outside of a container. TLS, logins and limits are the same.",
)
@click.option(
    "--metrics",
    type=Address(),
    metavar="HOST:PORT",
    help="Address for monitors: /metrics in the text format of Prometheus, and /healthz. Whoever reaches it reads "
    "names of partitions and numbers, no records.",
)
@click.option(
    "-f/-b",
    "--foreground/--background",
    default=True,
    help="Stay in the foreground until Ctrl-C, which is the default, or return when clients can "
    "connect, and serve in the background.",
)
@click.option(
    "--stop",
    type=Address(),
    metavar="HOST:PORT",
    is_eager=True,
    expose_value=False,
    callback=_stop,
    help="End the server that listens on this address of this machine, wait for its end, and exit.",
)
@partition_options
@click.option(
    "--snapshot",
    is_flag=True,
    help="Serve the files as they are now, even when a broker writes or deletes them later.",
)
@at_option
@click.option(
    "--nodes",
    "shows_nodes",
    is_flag=True,
    help="Show the brokers and topics of the cluster's metadata in place of one broker. All brokers have this "
    "server's address; partitions without a log in SOURCE have no leader.",
)
@click.option(
    "--only-present",
    is_flag=True,
    help="Tell clients nothing of partitions that SOURCE lacks. Without it they have no leader, and programs that "
    "read whole topics, such as Flink, end with an error.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Leave damaged batches out, as if compacted: a fetch there gets the next good batch. "
    "Without it a consumer gets the error CORRUPT_MESSAGE there.",
)
@click.option(
    "--old-formats",
    type=click.Choice(["as-is", "convert", "refuse"]),
    default="as-is",
    show_default=True,
    help="Batches of magic 0 and 1: send them as they are, as a broker does, send them as batches of "
    "magic 2, or answer the error UNSUPPORTED_FOR_MESSAGE_FORMAT.",
)
@rename_option
@click.option(
    "--schema-registry",
    type=Address(),
    metavar="HOST:PORT",
    help="Answer the requests of a schema registry's REST API that read, by HTTP on this address, from "
    "the topic _schemas of SOURCE; port 0 for a free one. Whoever reaches it reads the schemas.",
)
@click.option(
    "--commit-to",
    metavar="FILE",
    help="Keep the offsets that groups commit in this file, too, and go on from them at the next start. Without it "
    "they are kept until the server ends. SOURCE is never changed.",
)
@click.option(
    "--audit-log",
    metavar="FILE",
    help="Append to this file who read which offsets of which partition: a JSON line for each stretch that a client "
    "was sent.",
)
@security_options
@click.option(
    "-o",
    "limits",
    multiple=True,
    metavar="OPT,…",
    help="Limits, comma-separated: request_bytes=4M, pending_bytes=64M, fetch_bytes=64M, "
    "connections=2000, idle_seconds=600, workers=16, …: see kafkafs help serve.",
)
@click.option(
    "--print-config",
    is_flag=True,
    help="Print the properties for clients on standard output, once they can connect.",
)
@click.option("--log-file", metavar="FILE", help="Write the log to this file, too.")
@click.option("--debug", is_flag=True, help="Log also connections that end.")
@verbosity_options
def serve(
    sources: tuple[str, ...],
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    also_listen: tuple[tuple[str, int], tuple[str, int] | None] | None,
    choice: PartitionChoice,
    renames: tuple[str, ...],
    skip_damaged: bool,
    old_formats: str,
    schema_registry: tuple[str, int] | None,
    security: ClientSecurity,
    limits: tuple[str, ...],
    print_config: bool,
    **chosen: Any,  # noqa: ANN401
) -> None:
    """Serve SOURCE to Kafka clients as a read-only broker, until Ctrl-C.

    \b
    kafkafs serve /var/lib/kafka/data
    kafkafs serve /disk1/kafka /disk2/kafka --listen 127.0.0.1:19092
    kafkafs serve /var/lib/kafka/data --topic orders --skip-damaged
    kafkafs serve /var/lib/kafka/data --metrics 127.0.0.1:9308
    kafkafs serve /data --also-listen 0.0.0.0:9094=kafka-old.example:9094
    kafkafs serve /var/lib/kafka/data --audit-log /var/log/reads.jsonl
    kafkafs serve mailed/payments.log --rename payments=orders-3
    kafkafs serve /var/lib/kafka/data --schema-registry 127.0.0.1:8081
    kafkafs serve /var/lib/kafka/data -b --print-config > client.properties
    kcat -b 127.0.0.1:9092 -t orders -C -e
    kafkafs top 127.0.0.1:9092
    kafkafs serve --stop 127.0.0.1:9092

    One broker leads all partitions. Record bytes go from the files to the clients as
    they are; their checksums are checked before the first time. Requests that write
    are refused. A live directory is followed. See kafkafs help serve.

    Exit status: 0 ended by a signal, or in the background, 2 usage, 3 SOURCE cannot be
    read, or the address cannot be listened on.
    """
    from importlib.util import find_spec

    if find_spec("trio") is None or find_spec("re2") is None:
        raise click.ClickException("serve needs trio and re2: pip install 'kafkafs[serve]'")
    from kafkafs.serve.daemon import run
    from kafkafs.serve.records.conversions import OldFormats
    from kafkafs.serve.records.partition_fetch import FetchRules
    from kafkafs.serve.server import ServeOptions, place_of

    names = pairs_of("--rename", renames)
    options = ServeOptions(
        host=listen[0],
        port=listen[1],
        advertised=advertise,
        also=also_listen,
        choice=choice,
        renames=names,
        at=moment_then(),
        rules=FetchRules(skip_damaged=skip_damaged, old_formats=OldFormats(old_formats)),
        budgets=_budgets(limits),
        schema_registry=schema_registry,
        tls=security.tls,
        logins=security.logins,
        reload=partial(_reload, security),
        quiet=verbosity().is_quiet,
        **chosen,
    )
    security.warn_if_open(*listen)
    if also_listen is not None:
        security.warn_if_open(*also_listen[0])

    def ready(listening: Listening) -> None:
        if print_config:
            for line in security.properties(*(advertise or listening[:2])):
                write_line(line)
            if listening.schema_registry is not None:
                write_line(f"schema.registry.url=http://{place_of(*listening.schema_registry)}")
            sys.stdout.flush()

    sys.exit(
        run(
            source_paths(sources),
            options,
            check=lambda source: _check(choice, names, source, schema_registry),
            ready=ready,
        )
    )


def _reload(security: ClientSecurity) -> tuple[ssl.SSLContext | None, Logins | None]:
    from kafkafs.serve.server import ReloadError

    try:
        found = security.again()
    except click.ClickException as error:
        raise ReloadError(error.format_message()) from None
    return found.tls, found.logins


def _check(
    choice: PartitionChoice, renames: dict[str, str], source: LogSource, registry: object
) -> None:
    """Check that there is something to serve.

    Raises:
        StartError: an item of the choice matches nothing, a rename is none, or a registry has no topic.
        SourceError: the source has no partition.
    """
    from kafkafs.cli.options.partitions import (
        NothingMatchedError,
        require_choice,
        require_partitions,
    )
    from kafkafs.serve.daemon import StartError

    source.show_copies(each.text for each in choice.folders())
    try:
        require_choice(choice, require_partitions(source))
    except NothingMatchedError as error:
        raise StartError(error.message, EXIT_USAGE) from None
    from engine.errors import InvalidNameError
    from engine.log.renames import renamed, unknown_name

    logs = source.partitions().values()
    try:
        places = [renamed(log, renames) for log in logs if choice.takes(log)]
    except InvalidNameError as error:
        raise StartError(f"--rename: {error}", EXIT_USAGE) from None
    unknown = unknown_name(renames, logs)
    if unknown is not None:
        raise StartError(f"--rename: there is no topic or partition {unknown}", EXIT_USAGE)
    if renames and len(set(places)) < len(places):
        raise StartError("--rename: two partitions have one name", EXIT_USAGE)
    from kafkafs.schemas.registry.registry_records import SCHEMAS_TOPIC

    if registry and all(log.topic_partition.topic != SCHEMAS_TOPIC for log in logs):
        reason = f"there is no topic {SCHEMAS_TOPIC}; name the log dir that has it"
        raise StartError(f"--schema-registry: {reason}", EXIT_USAGE)


def _budgets(limits: tuple[str, ...]) -> ServeBudgets:
    from kafkafs.serve.budgets import BudgetError, parse_budgets

    try:
        return parse_budgets(limits)
    except BudgetError as error:
        raise click.BadParameter(str(error), param_hint="-o") from None
