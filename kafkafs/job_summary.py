"""Result of a job: facts for programs, tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol


class Table(NamedTuple):
    """Rows under a title; None is printed as "-"."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]


class JobSummary(Protocol):
    """Result of a job, which `kafkafs spark` prints, and derives its exit status from."""

    @property
    def findings(self) -> int:
        """Number of faults: the command exits with 1 when there are any, else with 0."""

    def facts(self) -> dict[str, Any]:
        """Return the result as JSON, with names in camelCase."""

    def tables(self) -> Sequence[Table]:
        """Return tables for people, the most important one last."""


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int) -> str:
    """Format a number of bytes in the largest unit that leaves at least 1: 512 B, 1.5 MiB."""
    scaled, unit = float(count), 0
    while scaled >= 1024 and unit < len(_UNITS) - 1:
        scaled, unit = scaled / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{scaled:.1f} {_UNITS[unit]}"


def percent(part: float, whole: float) -> str:
    """Format a share: 12.5%; 0% of nothing."""
    return f"{100 * part / whole:.1f}%" if whole else "0%"
