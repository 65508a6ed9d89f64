"""`kafkafs serve`: a read-only broker over log dirs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from kafkafs.cli.arguments import source_argument, source_paths
from kafkafs.cli.options.partitions import partition_options
from kafkafs.cli.options.verbosity import verbosity_options
from kafkafs.cli.printing.output import write_line
from kafkafs.cli.printing.verbosity import verbosity
from kafkafs.exit_codes import EXIT_CANNOT_READ

if TYPE_CHECKING:
    from engine.log.partition_choice import PartitionChoice

_LARGEST_PORT = 65_535


class _Address(click.ParamType["tuple[str, int]"]):
    """HOST:PORT, an IPv6 address in brackets."""

    name = "address"

    def convert(
        self,
        value: str | tuple[str, int],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, colon, port = value.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and int(port) <= _LARGEST_PORT
        if not (host and colon and is_port):
            return self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:9092", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


@click.command()
@source_argument
@click.option(
    "--listen",
    type=_Address(),
    default="127.0.0.1:9092",
    show_default=True,
    metavar="HOST:PORT",
    help="Address for clients; port 0 for a free one. Clients are not authenticated: whoever "
    "reaches the address reads the records.",
)
@click.option(
    "--advertise",
    type=_Address(),
    metavar="HOST:PORT",
    help="Address that clients are told to connect to; by default the one under which each client "
    "reached the server.",
)
@partition_options
@click.option(
    "--snapshot",
    is_flag=True,
    help="Serve the files as they are now, even when a broker writes or deletes them later.",
)
@click.option(
    "--skip-damaged",
    is_flag=True,
    help="Pass over damaged batches as over compacted ones; without it a consumer gets the error "
    "CORRUPT_MESSAGE there.",
)
@click.option(
    "--refuse-old",
    is_flag=True,
    help="Answer UNSUPPORTED_FOR_MESSAGE_FORMAT for segments with batches of magic 0 and 1, for clients that "
    "cannot read them; without it they are sent as they are, as a broker does.",
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
    choice: PartitionChoice,
    snapshot: bool,
    skip_damaged: bool,
    refuse_old: bool,
    print_config: bool,
    log_file: str | None,
    debug: bool,
) -> None:
    """Serve SOURCE to Kafka clients as a read-only broker, until Ctrl-C.

    \b
    kafkafs serve /var/lib/kafka/data
    kafkafs serve /disk1/kafka /disk2/kafka --listen 127.0.0.1:19092
    kafkafs serve /var/lib/kafka/data --topic orders --skip-damaged
    kafkafs serve /var/lib/kafka/data --print-config > client.properties &
    kcat -b 127.0.0.1:9092 -t orders -C -e       then, in another terminal

    One broker leads all partitions. Record bytes go from the files to the clients as
    they are; their checksums are checked before the first time. Requests that write
    are refused. A live directory is followed. See kafkafs help serve.

    Exit status: 0 ended by a signal, 2 usage, 3 SOURCE cannot be read, or the address
    cannot be listened on.
    """
    import logging
    from importlib.util import find_spec

    if find_spec("trio") is None:
        raise click.ClickException("serve needs trio: pip install 'kafkafs[serve]'")
    from kafkafs.cli.arguments import open_log_source
    from kafkafs.cli.options.partitions import require_choice, require_partitions
    from kafkafs.fuse import daemon_log
    from kafkafs.serve.records.partition_fetch import FetchRules
    from kafkafs.serve.server import ListenError, ServeOptions, serve as serve_until_signal

    with open_log_source(sources, is_whole=False) as source:
        require_choice(choice, require_partitions(source))
    try:
        daemon_log.set_up(path=log_file, to_terminal=True, debug=debug, quiet=verbosity().is_quiet)
    except OSError as error:
        raise click.BadParameter(str(error), param_hint="--log-file") from None
    logging.getLogger("kafkafs.serve").setLevel(logging.DEBUG if debug else logging.INFO)

    def ready(host: str, port: int) -> None:
        if print_config:
            named, number = advertise or (host, port)
            shown = f"[{named}]" if ":" in named else named
            write_line(f"bootstrap.servers={shown}:{number}")
            sys.stdout.flush()

    options = ServeOptions(
        host=listen[0],
        port=listen[1],
        advertised=advertise,
        choice=choice,
        snapshot=snapshot,
        rules=FetchRules(skip_damaged=skip_damaged, refuse_old=refuse_old),
    )
    try:
        serve_until_signal(source_paths(sources), options, ready)
    except ListenError as error:
        click.echo(f"kafkafs: {error}", err=True)
        sys.exit(EXIT_CANNOT_READ)
