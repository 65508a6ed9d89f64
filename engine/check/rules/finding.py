"""What a check found: one thing that is not as it should be, or that is worth knowing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.check.rules.rules import RULES, Severity
from engine.errors import UnreadableError
from engine.files.read_failures import error_name, is_of_device, reason_of
from engine.units import Offset, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found; made by `found`.

    Attributes:
        rule: the id of a rule in RULES; stable, for machines.
        severity: how bad it is here; the rule's own unless there was a reason.
        partition: the name of the partition in its source; "" for a log dir's own files.
        file: the path as shown to people.
        position, length: which bytes of the file, where that can be said.
        first_offset, next_offset: which offsets it concerns, the second excluded, where that can be said.
        sentence: what is wrong, with the facts.
        advice: what to do about it.
        facts: the same facts for machines, JSON values: expected, found, and others by name.
    """

    rule: str
    severity: Severity
    partition: str
    file: str
    position: Position | None
    length: int | None
    first_offset: Offset | None
    next_offset: Offset | None
    sentence: str
    advice: str
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[object, ...]:
        """What stays the same when the same thing is found by a second look."""
        return self.rule, self.partition, self.file, self.position, self.first_offset

    @property
    def is_of_device(self) -> bool:
        """Whether it says that a device cannot read some of its bytes."""
        return is_of_device(str(self.facts.get("errno", "")))

    def to_json(self) -> dict[str, Any]:
        """All of it as a JSON object; what is not known is left out."""
        known: dict[str, Any] = {
            "rule": self.rule,
            "severity": self.severity.value,
            "partition": self.partition or None,
            "file": self.file,
            "position": self.position,
            "length": self.length,
            "firstOffset": self.first_offset,
            "nextOffset": self.next_offset,
            "sentence": self.sentence,
            "advice": self.advice,
            "facts": dict(self.facts) or None,
        }
        return {name: value for name, value in known.items() if value is not None}


def failed_read(error: Exception) -> dict[str, Any]:
    """The sentence and the facts of a finding about a file that the system does not let us read."""
    facts: dict[str, Any] = {
        "sentence": f"it cannot be read: {reason_of(error)}",
        "errno": error_name(error) or None,
    }
    if isinstance(error, UnreadableError):
        facts |= {"position": error.position, "length": error.length}
    return facts


def found(
    rule: str,
    file: str,
    sentence: str,
    *,
    partition: str = "",
    position: Position | None = None,
    length: int | None = None,
    first_offset: Offset | None = None,
    next_offset: Offset | None = None,
    severity: Severity | None = None,
    advice: str | None = None,
    facts: Mapping[str, object] | None = None,
    **more: object,
) -> Finding:
    """A finding of a rule, whose severity and advice hold unless others are given.

    Facts come as a mapping, by keyword, or both; those that are None are left out.

    Raises KeyError for a rule that is not registered.
    """
    known = RULES[rule]
    return Finding(
        rule=rule,
        severity=severity or known.severity,
        partition=partition,
        file=file,
        position=position,
        length=length,
        first_offset=first_offset,
        next_offset=next_offset,
        sentence=sentence,
        advice=advice or known.advice,
        facts={name: fact for name, fact in {**(facts or {}), **more}.items() if fact is not None},
    )
