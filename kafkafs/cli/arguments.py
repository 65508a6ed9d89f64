"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import click

from engine.errors import KafkaStorageError
from engine.files.read_failures import IMAGE_FIRST, is_of_device
from engine.files.stores import STORES
from kafkafs.cli.completing import names
from kafkafs.cli.printing.terminal.output import fail, say, sentence_of
from kafkafs.cli.printing.terminal.verbosity import verbosity
from kafkafs.decode.failures import KafkaFsError
from kafkafs.decode.shown_text import printable
from kafkafs.exit_codes import EXIT_CANNOT_READ, EXIT_FINDINGS

if TYPE_CHECKING:
    from engine.cut.moment import Moment
    from engine.log.log_directory import LogSource, Unread
    from engine.verdict.loss import Loss
    from kafkafs.cli.printing.losses import Takes
    from kafkafs.forms.record_format import RecordFormat
    from kafkafs.masking.policy import MaskPolicy
    from kafkafs.tree.tree import Tree

Answer = TypeVar("Answer")
Command = TypeVar("Command", bound=Callable[..., Any])

MOST_UNREAD = 20
READ_ERRORS = (OSError, KafkaStorageError, KafkaFsError)
DEFAULT_SCHEMAS = ("auto",)
"""Those in SOURCE. Written out: to import it takes the start-up time of all commands."""
_LARGEST_PORT = 65_535
VALUE_MODES = ("auto", "text", "json", "base64", "hex", "none")

_BELOW = "kafkafs.below"


def _note_below(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    context.meta[_BELOW] = is_wanted


def _add_tiered_keys(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> None:
    if texts:
        from engine.errors import SourceError
        from engine.log.tiered.data_keys import add_key_file

        try:
            for text in texts:
                add_key_file(text)
        except SourceError as error:
            raise click.BadParameter(str(error), param=option) from None


def _note_store_options(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> None:
    if texts:
        from kafkafs.stores.store_options import ENVIRONMENT

        os.environ[ENVIRONMENT] = ",".join(texts)


store_option = click.option(
    "--store-option",
    multiple=True,
    expose_value=False,
    is_eager=True,
    callback=_note_store_options,
    metavar="NAME=VALUE",
    help="How a store is reached: endpoint=URL, region=NAME, profile=NAME, anonymous=true,"
    " ca-file=PATH, space=SIZE. See kafkafs help stores.",
)


def source_options(command: Command) -> Command:
    """Add --below, --tiered-key and --store-option: how SOURCE is opened."""
    below = click.option(
        "--below",
        is_flag=True,
        expose_value=False,
        callback=_note_below,
        help="Take all log dirs below SOURCE, a folder such as /var/lib/kafka.",
    )
    keys = click.option(
        "--tiered-key",
        multiple=True,
        expose_value=False,
        callback=_add_tiered_keys,
        metavar="ID=FILE.pem",
        shell_complete=names.files,
        help="Private RSA key of encrypted tiered copies; more in KAFKAFS_TIERED_KEYS.",
    )
    return below(keys(store_option(command)))


def source_argument(command: Command) -> Command:
    """Add SOURCE..., one or more sources, and the options of `source_options`."""
    argument = click.argument(
        "sources", metavar="SOURCE...", nargs=-1, required=True, shell_complete=names.files
    )
    return argument(source_options(command))


def one_source_argument(command: Command) -> Command:
    """Add SOURCE, one source or a comma list, and the options of `source_options`."""
    argument = click.argument("source", metavar="SOURCE", shell_complete=names.files)
    return argument(source_options(command))


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: len(os.sched_getaffinity(0)),
    metavar="N",
    help="Number of cores to use; by default all.",
)
values_option = click.option(
    "--values",
    type=click.Choice(VALUE_MODES),
    default="auto",
    show_default=True,
    help="Form of keys, values and header values in record lines.",
)
key_format_option = click.option(
    "--key-format",
    type=click.Choice(["text", "hex", "base64", "json"]),
    default="text",
    show_default=True,
    help="Form of KEY on the command line; text: as the type of the keys is written, by a mapping;"
    " json: as the record line shows the key.",
)
schemas_option = click.option(
    "--schemas",
    multiple=True,
    default=DEFAULT_SCHEMAS,
    show_default=True,
    metavar="auto|none|PATH",
    shell_complete=names.files,
    help="Schemas of keys and values: those in SOURCE, none, or those in PATH, which is"
    " a log dir, a file or a directory of schemas. Can be given several times.",
)


class Address(click.ParamType["tuple[str, int]"]):
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
        found = address_of(value)
        if found is None:
            return self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:9092", param, ctx)
        return found


def address_of(text: str) -> tuple[str, int] | None:
    """Return host and port of HOST:PORT; None for another text."""
    host, colon, port = text.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and int(port) <= _LARGEST_PORT
    if not (host and colon and is_port):
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)


class _Format(click.ParamType["RecordFormat"]):
    """Format of records, as `kcat -f` has it."""

    name = "format"

    def convert(
        self,
        value: str | RecordFormat,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> RecordFormat:
        from kafkafs.forms.record_format import FormatError, RecordFormat

        if isinstance(value, RecordFormat):
            return value
        try:
            return RecordFormat.parse(os.fsencode(value))
        except FormatError as error:
            return self.fail(str(error), param, ctx)


format_option = click.option(
    "--format",
    "form",
    type=_Format(),
    metavar="FORMAT",
    help="Print each record as kcat -f does, in place of its line: %s value, %k key, %S %K sizes,"
    r" %h headers, %t topic, %p partition, %o offset, %T timestamp, \n, \t, \xNN; rpk's %x %y producer, %k{hex},"
    " %o{hex64}.",
)


def source_paths(sources: tuple[str, ...]) -> list[str]:
    """Return the named log dirs; an argument may list several, comma-separated as in log.dirs.

    A compressed file, an archive or "-" is unpacked. With --below, those below each named folder that is no log dir itself.
    """
    paths = [STORES.local(path) for source in sources for path in names.source_paths(source)]
    if any(path == "-" or os.path.isfile(path) for path in paths):
        from kafkafs.unpacking import unpacked

        paths = unpacked(paths, fail)
    context = click.get_current_context(silent=True)
    if context is None or not context.meta.get(_BELOW):
        return paths
    from engine.log.source_identity import paths_below

    return [each for path in paths for each in paths_below(path)]


AT = "kafkafs.cli.at"
"""Where the moment of --at is kept while a command runs."""


def moment_then() -> Moment | None:
    """Return the moment of --at of the running command; None for now."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(AT)


class LostRead(NamedTuple):
    """What a command reads, and what it says of lost partitions among that.

    Attributes:
        takes: returns whether a partition is read; None for those that the command's options choose.
        status: exit status where one is lost.
    """

    takes: Takes | None = None
    status: int = EXIT_FINDINGS


@contextmanager
def open_log_source(
    sources: tuple[str, ...],
    *,
    is_whole: bool = True,
    reads: LostRead | None = None,
    is_cluster: bool = True,
) -> Iterator[LogSource]:
    """Open the sources for reading; close them at the end.

    A command continues without files that cannot be read. At its end they are reported here, and the exit status
    is 3, unless the command exits with 0 or an error of its own.

    Args:
        sources: paths, as the operator named them.
        is_whole: whether the command reads the whole source, so that its result lacks the unreadable files.
        reads: for a command that shows records or what they add up to: its result lacks what the source lost, which
            is reported here as far as no log shows it.
        is_cluster: whether the log dirs of several nodes are read as one cluster, and not each as its own.
    """
    # Imported here, with all that reads logs, because `mount`, `umount` and `--help` read none.
    from engine.log.log_directory import open_source
    from kafkafs.cli.printing.losses import chosen, report_lost

    paths = source_paths(sources)
    at = moment_then()
    if at is not None or (is_cluster and len(paths) > 1):
        from engine.cut.opening import open_at

        source = open_at(paths, at)
        source.show_copies(each.text for each in chosen().folders())
    else:
        source = open_source(paths)
    with closing(source), told_source(source):
        try:
            yield source
        except (click.exceptions.Exit, SystemExit) as end:
            code = end.exit_code if isinstance(end, click.exceptions.Exit) else end.code
            if code not in (EXIT_FINDINGS, EXIT_CANNOT_READ):
                raise
            is_lost = reads is not None and report_lost(source, reads.takes)
            if isinstance(end, AlreadyReported):
                _advise(source.unread())
            elif is_whole and report_unread(source.unread() + source.unread_folders()):
                raise click.exceptions.Exit(EXIT_CANNOT_READ) from None
            if reads is not None and is_lost:
                raise type(end)(max(code, reads.status)) from None
            raise
        is_lost = reads is not None and report_lost(source, reads.takes)
        if not is_whole:
            _report_places(source.unread())
            _advise(source.unread())
        elif report_unread(source.unread() + source.unread_folders()):
            raise click.exceptions.Exit(EXIT_CANNOT_READ)
        if reads is not None and is_lost:
            raise click.exceptions.Exit(reads.status)


@contextmanager
def told_source(source: LogSource) -> Iterator[None]:
    """With --verbose, print what a command reads of a source, and at the end the problems of its files."""
    if not verbosity().is_verbose:
        yield
        return
    from kafkafs.cli.printing.source_details import print_opened, print_passed_over

    print_opened(source)
    try:
        yield
    finally:
        print_passed_over(source)


class AlreadyReported(click.exceptions.Exit):
    """Exit of a command that has reported its unreadable files itself."""


class Failures:
    """Report paths that cannot be read or are damaged; exit with status 3 or 1 at the end.

    Exit status 3: a path could not be read, or only in part. 1: all could be read, and some of it is damaged or has no
    records.
    """

    def __init__(self) -> None:
        self.count = 0
        self._has_findings = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and (self.count or self._has_findings):
            raise AlreadyReported(EXIT_CANNOT_READ if self.count else EXIT_FINDINGS)

    def report(self, error: Exception, consequence: str = "") -> None:
        """Report an error and its consequence, and count the error."""
        fail("; ".join(filter(None, (sentence_of(error), consequence))))
        self.count += 1

    def report_hole(self, path: str) -> None:
        """Report and count a record stream with error lines in place of unreadable bytes."""
        fail(f'{path}: not all of it could be read; its lines {{"error": ...}} say where and why')
        self.count += 1

    def report_damage(self, path: str) -> None:
        """Report a record stream with error lines in place of damaged bytes."""
        fail(f'{path}: some of it is damaged; its lines {{"error": ...}} say where and why')
        self._has_findings = True

    def report_nothing(self, sentence: str) -> None:
        """Report a selection without records."""
        fail(sentence)
        self._has_findings = True

    def report_loss(self, loss: Loss) -> None:
        """Report records that are lost."""
        from kafkafs.loss_words import sentence_of_loss

        fail(sentence_of_loss(loss))
        self._has_findings = True

    def report_absent(self, source: LogSource) -> None:
        """Report the chosen partitions of a source that have no folder, or one that is not read."""
        from kafkafs.cli.printing.losses import report_lost_partitions

        self.count += report_unread(source.unread_folders())
        self._has_findings |= report_lost_partitions(source)

    def report_beside(self, source: LogSource) -> None:
        """Report the files beside the partitions of a source that could not be read."""
        self.count += report_unread(source.unread_beside())

    def note_reported(self, *, is_unread: bool) -> None:
        """Count a place that was reported; `is_unread` if it could not be read, else it is damaged."""
        self.count += is_unread
        self._has_findings |= not is_unread

    def tried(self, ask: Callable[..., Answer], *arguments: object) -> Answer | None:
        """Return the result of a call; report an error and return None."""
        try:
            return ask(*arguments)
        except BrokenPipeError:  # of our own output
            raise
        except READ_ERRORS as error:
            self.report(error)
            return None

    def passed_on(self, items: Iterable[Answer]) -> Generator[Answer, None, None]:
        """Yield the items up to an error, and report the error."""
        try:
            yield from items
        except READ_ERRORS as error:
            self.report(error)


def report_unread(unread: Sequence[Unread], *, is_filled: bool = False) -> bool:
    """Report unreadable files on standard error; return whether there were any.

    Args:
        unread: the unreadable places.
        is_filled: whether other copies filled the gaps, or the request does not include them.
    """
    _report_places(unread)
    if unread:
        places, them = ("1 place", "it") if len(unread) == 1 else (f"{len(unread)} places", "them")
        ending = (
            f"nothing is missing because of {them}"
            if is_filled
            else f"the result goes without {them}"
        )
        say(f"kafkafs: {places} could not be read; {ending}", err=True)
    _advise(unread)
    return bool(unread)


def _report_places(unread: Sequence[Unread]) -> None:
    for each in unread[:MOST_UNREAD]:
        say(f"kafkafs: {printable(str(each))}", err=True)
    if len(unread) > MOST_UNREAD:
        say(f"kafkafs: and {len(unread) - MOST_UNREAD} more", err=True)


def _advise(unread: Sequence[Unread]) -> None:
    if any(is_of_device(each.errno) for each in unread):
        say(f"kafkafs: {IMAGE_FIRST}", err=True)


@contextmanager
def open_tree(
    source: str,
    values: str = "auto",
    jobs: int = 1,
    schemas: tuple[str, ...] = DEFAULT_SCHEMAS,
    mask: MaskPolicy | None = None,
) -> Iterator[Tree]:
    """Open the tree over one SOURCE."""
    from kafkafs.tree.tree import Tree, TreeOptions

    with open_log_source((source,), is_whole=False) as logs:
        options = TreeOptions(values=values, jobs=jobs, schemas=schemas, mask=mask)
        yield Tree(logs, options=options)


def clean_path(path: str) -> str:
    """Normalize a path of the tree: drop slashes at the ends, double slashes and "."."""
    return "/".join(part for part in path.split("/") if part not in ("", "."))
