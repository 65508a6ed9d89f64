"""A bound on findings of the same rule about the same file, for files that are all damage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from engine.check.finding import Finding

MOST = 1000


class FindingLimit:
    """Lets so many of each rule and file through, and counts the others.

    Args:
        most: how many.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._counts: dict[tuple[str, str], int] = {}
        self._last: dict[tuple[str, str], Finding] = {}

    def takes(self, finding: Finding) -> bool:
        """Whether this one is still within the bound; one that stands for many always is."""
        if "more" in finding.facts:
            return True
        kind = finding.rule, finding.file
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count <= self._most:
            return True
        self._last[kind] = finding
        return False

    def rest(self) -> Iterator[Finding]:
        """One finding for all that were over the bound, of each rule and file."""
        for kind, last in self._last.items():
            more = self._counts[kind] - self._most
            sentence = f"{more} more like these, the last: {last.sentence}"
            yield replace(last, sentence=sentence, facts={**last.facts, "more": more})


def bounded(findings: Iterable[Finding], most: int = MOST) -> list[Finding]:
    """Findings as they come, of each rule and file no more than the bound, and one for all others."""
    limit = FindingLimit(most)
    return [*filter(limit.takes, findings), *limit.rest()]
