"""Options with times: `kafkafs.time_grammar` on the command line. Without a zone a time is in UTC, or with --local
in the zone of this machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from kafkafs.cli.arguments import AT, Command
from kafkafs.time_grammar import FORMS, MOMENTS, TimeGrammar

if TYPE_CHECKING:
    from engine.cut.moment import Moment
    from engine.log.view.log_bound import LogBound, LogRange
    from engine.units import Timestamp

_IS_LOCAL = "kafkafs.cli.is_local"
_NOW = "kafkafs.cli.now"
MOMENT_HELP = f"Read the source as it was then: {MOMENTS}. See kafkafs help time-machine."


def grammar() -> TimeGrammar:
    """Return the grammar of the running command; «now» is the same for all its options."""
    from engine.clock import SYSTEM_CLOCK

    context = click.get_current_context(silent=True)
    meta: dict[str, Any] = {} if context is None else context.meta
    return TimeGrammar(meta.setdefault(_NOW, SYSTEM_CLOCK.now_ms()), meta.get(_IS_LOCAL, False))


def _set_zone(context: click.Context, _: click.Parameter, is_utc: bool) -> None:
    context.meta[_IS_LOCAL] = not is_utc


zone_option = click.option(
    "--utc/--local",
    "is_utc",
    default=True,
    is_eager=True,
    expose_value=False,
    callback=_set_zone,
    help="Zone of times without one. [default: utc]",
)


def moment_option(command: Command) -> Command:
    """Add --at, the moment that the source is shown as of: `moment_then` has it where a source is opened."""
    return click.option(
        "--at",
        metavar="TIME|RECORD",
        expose_value=False,
        callback=_set_moment,
        help=MOMENT_HELP,
    )(command)


def at_option(command: Command) -> Command:
    """Add --at, and --utc and --local for it; see `moment_option`."""
    return zone_option(moment_option(command))


def _set_moment(context: click.Context, _: click.Parameter, text: str | None) -> None:
    context.meta[AT] = None if text is None else moment_of(text)


def moment_of(text: str) -> Moment:
    """Return a moment of the command line.

    Raises:
        click.BadParameter: the text is none.
    """
    found = grammar().moment(text)
    if found is None or (found.time is not None and time_of(text, "--at") is None):
        raise click.BadParameter(
            f"{text!r} is no moment: {MOMENTS}; a time is such as {FORMS}", param_hint="--at"
        )
    return found


_PERHAPS_SECONDS = range(10**8, 10**11)
"""Milliseconds of 1970 to 1973, before Kafka; as seconds these are times from 1973 on."""


def range_options(command: Command, *, letter: str = "-o") -> Command:
    """Add --from and --to, and kcat's -o; the command gets `extent`, a LogRange.

    Args:
        command: the command.
        letter: short name of --offset; "" where the letter is another option.
    """

    @wraps(command)
    def with_range(
        *given: Any,  # noqa: ANN401
        range_start: str | None,
        range_stop: str | None,
        kcats: tuple[str, ...],
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        extent = range_of(
            range_start, range_stop, kcats, is_empty_fine=bool(named.get("allow_empty"))
        )
        return command(*given, extent=extent, **named)

    for option in (
        zone_option,
        click.option(
            *filter(None, (letter, "--offset")),
            "kcats",
            multiple=True,
            metavar="OFFSET",
            help="Start as kcat -o and Kafka's --offset say: beginning, end, an offset, -N before the end,"
            " s@MS from a time on; e@MS stops at a time.",
        ),
        click.option(
            "--to",
            "range_stop",
            metavar="OFFSET|TIME",
            help="Stop before this offset, or before the first record at or after this time.",
        ),
        click.option(
            "--from",
            "range_start",
            metavar="OFFSET|TIME",
            help="Start at this offset (digits), or at the first record at or after this time: "
            f"{FORMS}.",
        ),
    ):
        with_range = option(with_range)
    return with_range  # type: ignore[return-value]


def range_of(
    start: str | None,
    stop: str | None,
    kcats: Iterable[str] = (),
    *,
    is_empty_fine: bool = False,
) -> LogRange:
    """Return the range of --from, --to and -o.

    Raises:
        click.BadParameter: a text is neither an offset nor a time.
        click.UsageError: a bound is given twice, or the range ends before it begins.
    """
    from engine.log.view.log_bound import LogRange

    bounds = [bound_of(start, "--from"), bound_of(stop, "--to")]
    words = [f"--from {start}", f"--to {stop}"]
    for text in kcats:
        for place, bound in enumerate(_kcats_bounds(text)):
            if bound is None:
                continue
            if bounds[place] is not None:
                raise click.UsageError(f"{words[place]} and --offset {text} are the same bound")
            bounds[place], words[place] = bound, f"--offset {text}"
    found = LogRange(*bounds)
    if found.is_backwards and not is_empty_fine:
        option = words[1].split()[0]
        raise click.UsageError(f"{words[0]} is not before {words[1]}, and {option} is exclusive")
    return found


def _kcats_bounds(text: str) -> tuple[LogBound | None, LogBound | None]:
    if text == "stored":
        raise click.BadParameter(
            "the stored offset is that of a consumer group, which no group reads here:"
            " kafkafs groups prints it",
            param_hint="--offset",
        )
    found = grammar().kcats_bounds(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is none of beginning, end, N, -N (before the end), s@MS and e@MS",
            param_hint="--offset",
        )
    return found


def time_of(text: str, option: str, names: Mapping[str, int] = MappingProxyType({})) -> Timestamp:
    """Return the time of an option in milliseconds since 1970; a year, day or hour is its beginning.

    Args:
        names: other values of the option, by name.

    Raises:
        click.BadParameter: the text is no time.
    """
    found = names[text] if text in names else grammar().time(text)
    if text.isdecimal() and found is not None and found in _PERHAPS_SECONDS:
        from kafkafs.loss_words import utc_minute

        raise click.BadParameter(
            f"{text} milliseconds are {utc_minute(found)}; if these are seconds,"
            f" write {text}000 ({utc_minute(found * 1000)})",
            param_hint=option,
        )
    if found is None:
        others = f"one of {', '.join(names)}, or " if names else ""
        raise click.BadParameter(
            f"{text!r} is not {others}a time such as {FORMS}", param_hint=option
        )
    return found


def bound_of(text: str | None, option: str) -> LogBound | None:
    """Return the offset or time of --from or --to; None if the option is not given.

    Raises:
        click.BadParameter: the text is neither an offset nor a time.
    """
    if text is None:
        return None
    found = grammar().bound(text)
    if found is None:
        raise click.BadParameter(
            f"{text!r} is neither an offset (digits) nor a time such as {FORMS}", param_hint=option
        )
    return found
