"""The `kafkafs` command: parse arguments, run one command, exit with its status.

Exit status: 0 fine, 1 findings (or nothing matched for grep), 2 usage, 3 cannot read.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from engine.errors import KafkaStorageError
from kafkafs.cli.printing.terminal.output import OutputFailed, fail, sentence_of
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS, EXIT_INTERRUPTED

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CommandTask(Enum):
    """What a command is for: the value heads its part of the list of commands."""

    LOOK = "Look around"
    FIND = "Find and take out records"
    DAMAGE = "Understand damage"
    RESCUE = "Rescue"
    SERVE = "Serve"
    HELP = "Help"


class Named(NamedTuple):
    """Module of a command below kafkafs.cli, its line in the list of commands, and its part there."""

    module: str
    summary: str
    task: CommandTask


COMMANDS = {
    "ls": Named("listing", "List a path of the tree.", CommandTask.LOOK),
    "cat": Named("copying", "Write files of the tree to standard output.", CommandTask.LOOK),
    "head": Named("tailing", "Print the first records of each partition.", CommandTask.LOOK),
    "tail": Named(
        "tailing", "Print the last records of each partition, and those to come.", CommandTask.LOOK
    ),
    "cp": Named("copying", "Copy a file or a folder of the tree.", CommandTask.LOOK),
    "browse": Named(
        "browsing", "Look around on a terminal: topics, records, damage.", CommandTask.LOOK
    ),
    "mount": Named("daemons.mounting", "Mount log dirs as a tree, read-only.", CommandTask.LOOK),
    "umount": Named(
        "daemons.mounting", "Unmount, and wait until the daemon is gone.", CommandTask.LOOK
    ),
    "offsets": Named(
        "cluster.offsets", "Print the offsets of each partition, also by time.", CommandTask.LOOK
    ),
    "topics": Named(
        "cluster.topics", "Describe topics: ids, partitions, configurations.", CommandTask.LOOK
    ),
    "diff": Named("cluster.differing", "Print what changed between two moments.", CommandTask.LOOK),
    "groups": Named(
        "cluster.groups", "Describe consumer, share and streams groups.", CommandTask.LOOK
    ),
    "du": Named(
        "measuring",
        "Print what takes the disk, and what a broker deletes next.",
        CommandTask.LOOK,
    ),
    "transactions": Named(
        "cluster.transactions", "List transactional ids, or open transactions.", CommandTask.LOOK
    ),
    "schemas": Named(
        "cluster.schemas", "List, print and export the schemas of a registry.", CommandTask.LOOK
    ),
    "grep": Named("searching", "Print the record lines that match a pattern.", CommandTask.FIND),
    "get": Named("getting", "Print the newest record of a key.", CommandTask.FIND),
    "sql": Named("querying", "Run a query of DuckDB on topics.", CommandTask.FIND),
    "export": Named("exporting", "Write records to files, by topic and day.", CommandTask.FIND),
    "spark": Named("spark.commands", "Run jobs over whole log dirs in Spark.", CommandTask.FIND),
    "check": Named(
        "checking", "Check every byte of a log and of the files beside it.", CommandTask.DAMAGE
    ),
    "plan": Named(
        "planning",
        "Predict what a broker would do to SOURCE if it started now.",
        CommandTask.DAMAGE,
    ),
    "report": Named(
        "reporting", "Write a page of HTML: contents, damage, what to do.", CommandTask.DAMAGE
    ),
    "stats": Named(
        "statistics", "Print sizes, codecs, producers and times by partition.", CommandTask.DAMAGE
    ),
    "dump": Named(
        "dumping", "Print the content of files as DumpLogSegments does.", CommandTask.DAMAGE
    ),
    "rebuild": Named("rebuilding", "Make a new log dir out of SOURCE.", CommandTask.RESCUE),
    "recover": Named(
        "recovering", "Make the log dirs of a whole cluster out of its disks.", CommandTask.RESCUE
    ),
    "erase": Named("erasing", "Erase records from all copies, with proof.", CommandTask.RESCUE),
    "serve": Named(
        "daemons.serving", "Serve log dirs to Kafka clients, read-only.", CommandTask.SERVE
    ),
    "top": Named(
        "daemons.watching", "Show the work of a mount's daemon, or of a server.", CommandTask.SERVE
    ),
    "help": Named("documents", "List the pages of the documents, or print one.", CommandTask.HELP),
    "completion": Named(
        "completing.shells", "Print the script that completes in a shell.", CommandTask.HELP
    ),
}
"""The commands. Only the module of the called command is imported: imports are slow."""


_NO_ROOM = (errno.ENOSPC, errno.EBADF)
LASTING = ("mount", "serve")
"""Commands that run for long: they give freed memory back to the system."""


class Commands(click.Group):
    """Commands by name; each module is imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by name; None when there is no such command."""
        named = COMMANDS.get(cmd_name)
        if named is None:
            return None
        module = import_module(f"kafkafs.cli.{named.module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the arguments; for an unknown one name a similar one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from engine.log.unmatched import most_like

            like = most_like(args[0], COMMANDS)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {like!r}?' if like else ''}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands with their summaries, without an import of their modules, and the options."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=COMMANDS[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without an import of their modules."""
        width = max(map(len, COMMANDS)) + 2
        for task in CommandTask:
            names = [name for name, named in COMMANDS.items() if named.task is task]
            with formatter.section(task.value):
                formatter.write_dl([(f"{name:{width}}", COMMANDS[name].summary) for name in names])

    def make_context(self, *given: Any, **named: Any) -> click.Context:  # noqa: ANN401 - click's own
        """Parse the arguments, which may print help."""
        with _closed_pipe_fails():
            return super().make_context(*given, **named)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        with _closed_pipe_fails():
            try:
                return super().invoke(ctx)
            except click.NoSuchOption as error:
                from kafkafs.cli.options.masking import refuse_mask

                refuse_mask(error)
                raise


@contextlib.contextmanager
def _closed_pipe_fails() -> Iterator[None]:
    """Raise OutputFailed for a closed pipe; click itself exits with status 1 on a BrokenPipeError."""
    try:
        yield
    except BrokenPipeError as error:
        raise OutputFailed(error) from None


def _print_version(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        from kafkafs.cli.printing.terminal.output import say
        from kafkafs.cli.printing.version import version_lines

        say("\n".join(version_lines()), hang=9)
        context.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    epilog="Exit status: 0 fine, 1 findings or nothing matched, 2 usage, 3 cannot read, 130 interrupted.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version, the kernel, the codecs and the libraries, and exit.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Read Kafka log directories without a broker, and without changing a byte of them.

    SOURCE is a broker's log dir, one partition's folder, one .log file, or a copy
    of tiered storage; in an object store the URL of one, such as s3://bucket/prefix.

    \b
    kafkafs mount /var/lib/kafka/data /mnt     then: cat /mnt/orders-0/offset/35
    kafkafs ls    /var/lib/kafka/data orders-0
    kafkafs cat   /var/lib/kafka/data orders-0/offset/35
    kafkafs grep  refund /var/lib/kafka/data orders-0/time/2024-01-01
    """
    _start_collector()
    if ctx.invoked_subcommand in LASTING:
        return
    from kafkafs.process_memory import keep_freed_memory

    keep_freed_memory()
    if sys.stderr.isatty() and not sys.stdout.isatty():
        from kafkafs.cli.printing.terminal.progress import Progress

        # Covers work that the command does not count; on a terminal the output itself shows the progress.
        ctx.with_resource(Progress(f"{ctx.invoked_subcommand}: working"))


def _start_collector() -> None:
    """Turn the garbage collector on, if `kafkafs.__main__` has turned it off for the imports.

    The imported objects are kept to the end: the collector need not look at them.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def main(argv: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with its status."""
    _prepare_streams()
    status = 0
    try:
        status = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except OutputFailed as failed:
        status = _without_output(failed.error)
    except OSError as error:
        status = status if status > EXIT_FINDINGS else _without_output(error)
    sys.exit(status)


def _prepare_streams() -> None:
    """Let standard output and error take any text in any locale.

    What is written to a standard output that the caller closed, such as with >&-, fails, as in a file that is open for
    reading only. A closed standard error takes everything.
    """
    for name, number, mode in (("stdout", 1, os.O_RDONLY), ("stderr", 2, os.O_WRONLY)):
        stream = getattr(sys, name)
        if stream is None:
            opened = os.open(os.devnull, mode)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _run(arguments: list[str]) -> int:
    """Run the command line; return its exit status."""
    # OpenBLAS, which kafkafs never calls, would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        if is_helper_call(sys.argv[0], arguments):
            from kafkafs.cli.daemons.mounting import mount_as_helper

            _start_collector()
            mount_as_helper(arguments)
        is_plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        color = False if is_plain else None
        status = cli.main(arguments, prog_name="kafkafs", standalone_mode=False, color=color)
    except SystemExit as left:
        status = left.code
    except click.exceptions.Abort:
        status = EXIT_INTERRUPTED
    except click.ClickException as error:
        status = _complain(error)
    except KafkaStorageError as error:
        status = fail(sentence_of(error))
    except BrokenPipeError:  # of standard error
        raise
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is None:  # of standard output
            raise
        status = fail(sentence_of(error))
    status = status if isinstance(status, int) else 0
    unpacking = sys.modules.get("kafkafs.unpacking")
    if unpacking is not None and unpacking.was_damaged() and status <= EXIT_FINDINGS:
        return EXIT_CANNOT_READ
    return status


def _without_output(error: OSError) -> int:
    """Report why standard output failed; return the exit status.

    A closed pipe ends the process by SIGPIPE, as for cat and grep: shells show status 141.
    """
    with contextlib.suppress(OSError, ValueError):  # the interpreter flushes once more at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    if error.errno == errno.EBADF:
        return fail("cannot write the output: standard output is closed")
    return fail(f"cannot write the output: {error.strerror or error}")


def is_helper_call(program: str, arguments: list[str]) -> bool:
    """Return whether mount(8) is the caller: as /sbin/mount.kafkafs, or as `kafkafs SOURCE MOUNTPOINT -o …`."""
    if os.path.basename(program).startswith("mount."):
        return True
    first = arguments[0] if arguments else "-"
    return "-o" in arguments[2:] and not first.startswith("-") and first not in COMMANDS


def _complain(error: click.ClickException) -> int:
    """Print a usage error on standard error as click words it; return the exit status."""
    from kafkafs.cli.printing.terminal.output import say
    from kafkafs.decode.shown_text import printable_lines

    text = StringIO()
    error.show(text)
    say(printable_lines(text.getvalue()).removesuffix("\n"), err=True)
    return error.exit_code
