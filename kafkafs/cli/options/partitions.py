"""Choice of partitions: --topic and --partition.

A choice that matches nothing is an error that names the existing partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import IO, TYPE_CHECKING, Any

import click

from engine.errors import SourceError
from engine.log.partition_choice import Choosable, NamePattern, PartitionChoice
from kafkafs.cli.arguments import Command
from kafkafs.cli.completing import names
from kafkafs.cli.printing.losses import CHOICE
from kafkafs.cli.printing.terminal.verbosity import detail
from kafkafs.decode.shown_text import printable

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_log import PartitionLog


class NothingMatchedError(click.ClickException):
    """A choice of topics or partitions that matches nothing, in one line."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        """Print one line on standard error."""
        click.echo(f"kafkafs: {printable(self.message)}", file=file, err=True)


class Partitioner(click.ParamType["int"]):
    """`murmur2` or `murmur2:COUNT`; 0 stands for a count that the cluster's metadata states."""

    name = "partitioner"

    def convert(
        self, value: str | int, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        if isinstance(value, int):
            return value
        name, colon, count = value.partition(":")
        if name == "murmur2" and not colon:
            return 0
        if name == "murmur2" and count.isascii() and count.isdecimal() and int(count):
            return int(count)
        return self.fail("write murmur2, or murmur2:6 for a topic with 6 partitions", param, ctx)


def partition_options(command: Command) -> Command:
    """Add --topic and --partition; the command gets `choice`, a PartitionChoice."""

    @wraps(command)
    def with_choice(
        *given: Any,  # noqa: ANN401
        chosen_topics: tuple[str, ...],
        chosen_partitions: tuple[str, ...],
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        choice = choice_of(chosen_topics, chosen_partitions)
        click.get_current_context().meta[CHOICE] = choice
        return command(*given, choice=choice, **named)

    return partition_texts(with_choice)  # type: ignore[return-value]


def topic_option(command: Command) -> Command:
    """Add --topic to a command that has no --partition; the command gets `choice`, a PartitionChoice."""

    @wraps(command)
    def with_choice(*given: Any, chosen_topics: tuple[str, ...], **named: Any) -> Any:  # noqa: ANN401
        choice = choice_of(chosen_topics)
        click.get_current_context().meta[CHOICE] = choice
        return command(*given, choice=choice, **named)

    return TOPIC_OPTION(with_choice)  # type: ignore[return-value]


def partition_texts(command: Command) -> Command:
    """Add --topic and --partition; the command gets the texts `chosen_topics` and `chosen_partitions`."""
    for option in reversed(CHOICE_OPTIONS):
        command = option(command)
    return command


TOPIC_OPTION = click.option(
    "-t",
    "--topic",
    "chosen_topics",
    multiple=True,
    metavar="LIST",
    shell_complete=names.topics,
    help="Take only these topics, comma-separated or repeated: names, shell patterns ('pay*') or "
    "/REGEX/, which has to match the whole name.",
)
PARTITION_OPTION = click.option(
    "-p",
    "--partition",
    "chosen_partitions",
    multiple=True,
    metavar="LIST",
    shell_complete=names.partitions,
    help="Take only these partitions, comma-separated or repeated: numbers, ranges A..B (B exclusive), "
    "folders (orders-0) or patterns of folders.",
)
CHOICE_OPTIONS = (TOPIC_OPTION, PARTITION_OPTION)
_INTERNAL = "--internal/--exclude-internal"


def internal_option(*, is_default: bool) -> Callable[[Command], Command]:
    """Return what adds --internal and Kafka's own names of its opposite; the command gets `internal`.

    Args:
        is_default: whether Kafka's own topics are taken without the option.
    """
    return click.option(
        _INTERNAL,
        " /--exclude-internal-topics",
        "internal",
        default=is_default,
        show_default=True,
        help="Take Kafka's own topics, too, or leave them out.",
    )


rename_option = click.option(
    "--rename",
    "renames",
    multiple=True,
    metavar="NAME=NEW",
    help="Rename a topic, or a partition (payments-0=orders-3). Repeatable.",
)


def pairs_of(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the values of an option NAME=VALUE by name.

    Raises:
        click.UsageError: one is malformed, or a name comes twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        old, equals, new = text.partition("=")
        if not (old and equals and new) or old in pairs:
            raise click.UsageError(f"{option} {text!r}: write NAME=VALUE, each name once")
        pairs[old] = new
    return pairs


def patterns_of(names: Iterable[str], option: str) -> list[NamePattern]:
    """Return names, shell patterns and /REGEX/ of arguments.

    Raises:
        click.BadParameter: one is malformed.
    """
    try:
        return [NamePattern.parse(name) for name in names]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def choice_of(topics: Iterable[str], partitions: Iterable[str] = ()) -> PartitionChoice:
    """Return the choice of --topic and --partition.

    Raises:
        click.BadParameter: one is malformed.
    """
    option = "--topic"
    try:
        choice = PartitionChoice.parse(topics)
        option = "--partition"
        return choice._replace(partitions=PartitionChoice.parse(partitions=partitions).partitions)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from None


def kafkas_choice(choice: PartitionChoice, text: str) -> PartitionChoice:
    """Return the choice of --topic-partitions, GetOffsetShell's option.

    Args:
        choice: that of --topic and --partition.

    Raises:
        click.UsageError: both are given, or the text is malformed.
    """
    if choice:
        raise click.UsageError(
            "--topic-partitions cannot be used together with --topic or --partition"
        )
    try:
        return PartitionChoice.parse_kafkas(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--topic-partitions") from None


def require_choice(
    choice: PartitionChoice, logs: Mapping[str, Choosable], option: str | None = None
) -> None:
    """Check that every item of a choice takes a partition, and that all together do.

    Args:
        option: the option that was given, if it was another one.

    Raises:
        NothingMatchedError: an item takes none.
    """
    unmatched = choice.unmatched(logs)
    if unmatched is not None:
        from engine.log.unmatched import unmatched_partition

        raise NothingMatchedError(
            unmatched_partition(option or unmatched[0], unmatched[1].text, logs)
        )
    if choice and not any(map(choice.takes, logs.values())):
        raise NothingMatchedError("no partition matches --topic and --partition together")
    if choice:
        taken = sum(map(choice.takes, logs.values()))
        detail(f"chosen: {taken} of {len(logs):,} partitions")


def require_partitions(source: LogSource) -> Mapping[str, PartitionLog]:
    """Return the partitions of a source.

    Raises:
        SourceError: the source has none.
    """
    logs = source.partitions()
    if not logs:
        paths = ", ".join(root.path for root in source.roots)
        raise SourceError(f"{paths} has no partition", hint="name a log dir that a broker wrote to")
    return logs
