"""The `kafkafs` command: arguments in, text and an exit status out.

Exit status: 0 fine, 1 findings (or nothing matched for grep), 2 usage, 3 cannot read.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

from engine.errors import KafkaStorageError, SourceError
from kafkafs import __version__
from kafkafs.cli.checking import check
from kafkafs.cli.copying import cat, cp
from kafkafs.cli.dumping import dump
from kafkafs.cli.groups import groups
from kafkafs.cli.listing import ls, printable
from kafkafs.cli.mounting import mount, mount_as_helper, umount
from kafkafs.cli.offsets import offsets
from kafkafs.cli.rebuilding import rebuild
from kafkafs.cli.searching import grep
from kafkafs.cli.topics import topics
from kafkafs.cli.transactions import transactions

EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_CANNOT_READ = 3
EXIT_INTERRUPTED = 130
MOST_MESSAGE = 1000


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 fine, 1 findings or nothing matched, 2 usage, 3 cannot read.",
)
@click.version_option(__version__, prog_name="kafkafs")
def cli() -> None:
    """Read Kafka log directories without a broker, and without changing a byte of them.

    SOURCE is a broker's log dir, one partition's folder, or one .log file.

    \b
    kafkafs mount /var/lib/kafka/data /mnt     then: cat /mnt/orders-0/offset/35
    kafkafs ls    /var/lib/kafka/data orders-0
    kafkafs cat   /var/lib/kafka/data orders-0/offset/35
    kafkafs grep  refund /var/lib/kafka/data orders-0/time/2024-01-01
    """


for command in (
    mount,
    umount,
    ls,
    cat,
    cp,
    grep,
    offsets,
    dump,
    check,
    rebuild,
    groups,
    topics,
    transactions,
):
    cli.add_command(command)


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and leave the process with its exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if is_helper_call(sys.argv[0], arguments):
            mount_as_helper(arguments)
        status = cli.main(args=arguments, prog_name="kafkafs", standalone_mode=False)
    except click.exceptions.Abort:
        status = EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except SourceError as error:
        hint = f" ({error.hint})" if error.hint else ""
        status = fail(f"{error.reason}{hint}")
    except KafkaStorageError as error:
        status = fail(str(error))
    except BrokenPipeError:
        # The reader of our output went away (`| head`): no message, and none at interpreter exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        status = fail(f"{where}{error.strerror or error}")
    sys.exit(status if isinstance(status, int) else 0)


def is_helper_call(program: str, arguments: list[str]) -> bool:
    """Whether mount(8) called: as /sbin/mount.kafkafs, or as `kafkafs SOURCE MOUNTPOINT -o …`."""
    if os.path.basename(program).startswith("mount."):
        return True
    first = arguments[0] if arguments else "-"
    return "-o" in arguments[2:] and not first.startswith("-") and first not in cli.commands


def fail(sentence: str) -> int:
    """Say one line on standard error; the exit status for «cannot read»."""
    click.echo(f"kafkafs: {printable(sentence)[:MOST_MESSAGE]}", err=True)
    return EXIT_CANNOT_READ
