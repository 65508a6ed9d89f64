"""Finding: one result of a check, a problem or a noteworthy fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.check.rules.rules import RULES, Severity
from engine.errors import UnreadableError
from engine.files.read_failures import error_name, is_of_device, reason_of
from engine.json_facts import facts_of
from engine.units import Offset, Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check; made by `found`.

    Attributes:
        rule: id of a rule in RULES; stable, for machines.
        severity: severity here; usually the rule's own.
        partition: name of the partition in its source; "" for a log dir's own files.
        file: path as shown to people.
        position, length: bytes of the file, if known.
        first_offset, next_offset: the offsets concerned, `next_offset` excluded, if known.
        sentence: the problem, with its facts.
        advice: what to do about it.
        facts: facts for machines, as JSON values: expected, found, and others by name.
        others: number of further findings of the same rule and file that it represents.
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
    others: int = 0

    @property
    def text(self) -> str:
        """The sentence, after the number of findings that it represents."""
        lead = f"{self.others} more like these, last: " if self.others else ""
        return lead + self.sentence

    @property
    def identity(self) -> tuple[object, ...]:
        """Key of the problem, equal in two looks that find it."""
        return self.rule, self.partition, self.file, self.position, self.first_offset

    @property
    def is_of_device(self) -> bool:
        """Whether it reports bytes that a device cannot read."""
        return is_of_device(str(self.facts.get("errno", "")))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object, without unknown fields."""
        known: dict[str, Any] = {
            "rule": self.rule,
            "severity": self.severity.value,
            "partition": self.partition or None,
            **facts_of(self, "file position length first_offset next_offset sentence=text advice"),
            "facts": {**self.facts, **({"more": self.others} if self.others else {})} or None,
        }
        return {name: value for name, value in known.items() if value is not None}


def failed_read(error: Exception) -> dict[str, Any]:
    """Return the sentence and the facts of a finding about a file that cannot be read."""
    facts: dict[str, Any] = {
        "sentence": f"cannot be read: {reason_of(error)}",
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
    """Make a finding of a rule, with the rule's severity and advice unless others are given.

    Facts are given as a mapping, as keywords, or both; None values are left out.

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
