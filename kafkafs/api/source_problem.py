"""Problems that reads of a source found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from engine.log.segment.problems import ProblemEntry
from engine.units import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProblem:
    """A place that could not be read, or a file that breaks its format. Picklable.

    Attributes:
        kind: what is wrong, such as "crc_mismatch".
        file: the file, relative to the source.
        reason: one sentence.
        partition: name of the partition; None for a file of the source itself.
        position, length: the bytes; None for the whole file.
        expected, found: the values that differ; None where there are none.
        errno: name of the system's error, such as "EIO"; None without one.
        elsewhere: places that may still hold lost records: their "kind" ("leftover", "copy", "tiered", "replica") and
            "name".
    """

    kind: str
    file: str
    reason: str
    partition: str | None = None
    position: Position | None = None
    length: int | None = None
    expected: object = None
    found: object = None
    errno: str | None = None
    elsewhere: Sequence[Mapping[str, str]] = ()

    @classmethod
    def of(cls, entry: ProblemEntry) -> SourceProblem:
        """Return the problem of an entry of the engine."""
        given = {each.name: entry[each.name] for each in fields(cls) if each.name in entry}
        return cls(**given)

    def __str__(self) -> str:
        place = "" if self.position is None else f"byte {self.position}: "
        return f"{self.file}: {place}{self.reason}"
