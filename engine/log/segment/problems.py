"""A bounded list of the problems of a source; the oldest entries are dropped first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock
from typing import Any, TypeAlias

from engine.errors import DamagedFileError, UnreadableError
from engine.files.read_failures import errno_name, error_name, reason_of
from engine.log.segment.damage import DamageKind, Elsewhere
from engine.log.segment.scan import Damage, Disorder
from engine.units import Position

ProblemEntry: TypeAlias = dict[str, Any]
"""kind, file, reason; position, length, expected, found and partition where known; errno where the system refused to
read the file; elsewhere: places that may still hold the records, as JSON."""

MOST_PROBLEMS = 1000
_LOCK = Lock()
"""One for all lists: a problem is rare, and a log dir has a list for each partition."""


def place_of(problem: ProblemEntry) -> tuple[object, ...]:
    """Return what tells a problem from others: kind, file and position; of lost offsets also which they are."""
    offsets = problem.get("reason") if problem["kind"] == DamageKind.MISSING else None
    return problem["kind"], problem["file"], problem.get("position"), offsets


class Problems:
    """A bounded list of problems without repetitions; safe from several threads."""

    __slots__ = ("_entries", "_most", "partition")

    def __init__(self, partition: str | None = None, *, most: int = MOST_PROBLEMS) -> None:
        self.partition = partition
        self._most = most
        self._entries: OrderedDict[tuple[Any, ...], ProblemEntry] | None = None

    def add(
        self,
        kind: str,
        file: str,
        reason: str,
        *,
        position: Position | None = None,
        length: int | None = None,
        expected: object = None,
        found: object = None,
        errno: str | None = None,
        elsewhere: Iterable[Elsewhere] = (),
    ) -> None:
        """Add a problem, unless one of this kind at this position of the file is there."""
        entry: ProblemEntry = {} if self.partition is None else {"partition": self.partition}
        entry |= {"kind": kind, "file": file, "reason": reason}
        facts = {
            "position": position,
            "length": length,
            "expected": expected,
            "found": found,
            "errno": errno,
            "elsewhere": [each.to_json() for each in elsewhere] or None,
        }
        self._add(entry | {name: fact for name, fact in facts.items() if fact is not None})

    def _add(self, entry: ProblemEntry) -> None:
        with _LOCK:
            if self._entries is None:
                self._entries = OrderedDict()
            key = place_of(entry)
            known = self._entries.setdefault(key, entry)
            if "elsewhere" in entry:
                known.setdefault("elsewhere", entry["elsewhere"])
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)

    def take(self, entries: Iterable[ProblemEntry]) -> None:
        """Add entries that another process found."""
        for entry in entries:
            self._add(entry)

    def add_error(self, kind: str, file: str, error: Exception) -> None:
        """Add the problem that an exception describes."""
        if isinstance(error, DamagedFileError):
            self.add(
                kind,
                file,
                error.reason,
                position=error.position,
                expected=error.expected,
                found=error.found,
            )
        elif isinstance(error, UnreadableError):
            self.add(
                kind,
                file,
                error.reason,
                position=error.position,
                length=error.length,
                errno=error_name(error),
            )
        else:
            self.add(kind, file, reason_of(error), errno=error_name(error) or None)

    def add_damage(self, file: str, damage: Damage | Disorder) -> None:
        """Add damage that a scan of a file found; for unreadable batches, each unreadable stretch."""
        stretches = damage.stretches if isinstance(damage, Damage) else ()
        for stretch in stretches:
            at, length = stretch.position, stretch.length
            self.add(
                damage.kind,
                file,
                stretch.reason,
                position=at,
                length=length,
                errno=errno_name(stretch.errno),
            )
        if stretches:
            return
        self.add(
            damage.kind,
            file,
            damage.reason,
            position=damage.position,
            expected=damage.expected,
            found=damage.found,
            elsewhere=damage.elsewhere if isinstance(damage, Damage) else (),
        )

    def __len__(self) -> int:
        return len(self._entries or ())

    def entries(self) -> list[ProblemEntry]:
        """Return all problems, the oldest first."""
        with _LOCK:
            return list((self._entries or {}).values())
