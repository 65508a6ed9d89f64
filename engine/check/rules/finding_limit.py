"""Bound on the findings of one rule about one file, for files with very many errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.check.rules.finding import Finding

MOST = 1000
Make: TypeAlias = Callable[[], Finding]


class FindingLimit:
    """Admits up to `most` findings of each rule and file, and counts the others.

    Args:
        most: the bound.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._counts: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], Finding] = {}

    def takes(self, finding: Finding) -> bool:
        """Return whether a finding is within the bound. A finding that represents others is only counted."""
        kind = finding.rule, finding.file
        count = self._counts[kind] = self._counts.get(kind, 0) + max(finding.others, 1)
        if count <= self._most and not finding.others:
            return True
        self._last[kind] = finding
        return False

    def rest(self) -> Iterator[Finding]:
        """Yield a finding per rule and file for all those above the bound."""
        for kind, last in self._last.items():
            yield replace(last, others=self._counts[kind] - self._most)


def bounded(findings: Iterable[Finding], most: int = MOST) -> list[Finding]:
    """Return the findings within the bound of each rule and file, and one for all others of the same kind."""
    limit = FindingLimit(most)
    return [*filter(limit.takes, findings), *limit.rest()]


def at_slots(
    slots: npt.NDArray[np.int64], make: Callable[[int], Finding], most: int = MOST
) -> Iterator[Finding]:
    """Yield a finding for each slot; above the bound, make only the last one and let it represent the rest."""
    for slot in slots[:most].tolist():
        yield make(slot)
    if len(slots) > most:
        yield replace(make(int(slots[-1])), others=len(slots) - most)


def made_up_to_limit(made: Iterable[tuple[str, Make]], most: int = MOST) -> Iterator[Finding]:
    """Make findings of one file up to the bound of each rule, and of the others only the last one of each rule."""
    counts: Counter[str] = Counter()
    last: dict[str, Make] = {}
    for rule, make in made:
        counts[rule] += 1
        if counts[rule] <= most:
            yield make()
        else:
            last[rule] = make
    for rule, make in last.items():
        yield replace(make(), others=counts[rule] - most)
