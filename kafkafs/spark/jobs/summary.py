"""What a job comes back with: facts for programs, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Table(NamedTuple):
    """Rows under a title; a None is shown as "-"."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]


class JobSummary(Protocol):
    """What `kafkafs spark` prints at the end of a job, and exits with."""

    @property
    def findings(self) -> int:
        """How many things were found wrong: the command exits with 1 when there are any, else with 0."""

    def facts(self) -> dict[str, Any]:
        """All of it as what JSON can say, names in camelCase."""

    def tables(self) -> Sequence[Table]:
        """What a person wants to see, the most telling last."""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """A number of bytes in the largest unit that leaves at least 1: 512 B, 1.5 MiB."""
    scaled, unit = float(count), 0
    while scaled >= 1024 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{scaled:.1f} {_UNITS[unit]}"


def percent(part: float, whole: float) -> str:
    """A share: 12.5%; nothing of nothing is 0%."""
    return f"{100 * part / whole:.1f}%" if whole else "0%"
