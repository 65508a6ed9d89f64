"""--part, --sample, --max-duration and --resume: a check that does not look at everything at once."""

from __future__ import annotations

import re
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkafs.cli.arguments import Command
from kafkafs.cli.completing import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.check.scope import Scope
    from engine.log.partition_log import PartitionLog

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class CheckExtent(NamedTuple):
    """What the options ask for.

    Attributes:
        part: number of the part, and of how many; None for everything.
        sample: percentage of the bytes; None for everything.
        seed: of the sample.
        max_seconds: time after which no partition is begun; None for no limit.
        resume: file that keeps the progress; "" for none.
    """

    part: tuple[int, int] | None = None
    sample: float | None = None
    seed: int | None = None
    max_seconds: float | None = None
    resume: str = ""

    @property
    def is_everything(self) -> bool:
        """Whether none of the options was given."""
        return self == CheckExtent()

    def scope(self, logs: Sequence[PartitionLog]) -> Scope | None:
        """Return what to look at; None for all of the logs. Lists their segments."""
        from engine.check.scope import part_of, sample_of

        if self.part is not None:
            return part_of(logs, *self.part)
        return None if self.sample is None else sample_of(logs, self.sample, self.seed)


def scope_options(command: Command) -> Command:
    """Add the options; the command gets `asked`, an CheckExtent. Each contradiction is a UsageError."""

    @wraps(command)
    def with_asked(
        *given: Any,  # noqa: ANN401
        part: tuple[int, int] | None,
        sample: float | None,
        seed: int | None,
        max_seconds: float | None,
        resume: str | None,
        **named: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        if part is not None and sample is not None:
            raise click.UsageError("--part and --sample cannot be combined")
        if sample is not None and (resume or max_seconds is not None):
            raise click.UsageError("--sample cannot be combined with --resume or --max-duration")
        if seed is not None and sample is None:
            raise click.UsageError("--seed belongs to --sample")
        asked = CheckExtent(part, sample, seed, max_seconds, resume or "")
        return command(*given, asked=asked, **named)

    wrapped: Any = with_asked
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


def _part(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, int] | None:
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text or "")
    if text is None:
        return None
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise click.BadParameter(f"{text!r} is no part such as 3/10, the third of ten")
    return int(match[1]), int(match[2])


def _share(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", text or "")
    if text is None:
        return None
    if match is None or not 0 < float(match[1]) <= 100:
        raise click.BadParameter(f"{text!r} is no share such as 5%")
    return float(match[1])


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    match = re.fullmatch(r"([0-9]{1,6})([smhd])", text or "")
    if text is None:
        return None
    if match is None:
        raise click.BadParameter(f"{text!r} is no time span such as 90m, 2h or 1d")
    return float(int(match[1]) * _UNITS[match[2]])


_OPTIONS = (
    click.option(
        "--part",
        metavar="N/M",
        callback=_part,
        help="Check only the part N of M: whole partitions, shared out by their bytes. All M parts "
        "find what one check finds.",
    ),
    click.option(
        "--sample",
        metavar="P%",
        callback=_share,
        help="Check only segments that are chosen at random, P percent of the bytes, each on its own.",
    ),
    click.option("--seed", type=int, metavar="N", help="Choose as the sample that printed N."),
    click.option(
        "--max-duration",
        "max_seconds",
        metavar="SPAN",
        callback=_seconds,
        help="Begin no partition after this time, such as 90m, 2h or 1d. Exit status 3 if any is left.",
    ),
    click.option(
        "--resume",
        metavar="FILE",
        shell_complete=names.files,
        help="Keep the progress in FILE, and go on from there if FILE is of a stopped check. Partitions "
        "with changed files are read again.",
    ),
)
