"""Rules and their registry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding; notes do not make a log unsound."""

    ERROR = "error"
    """Records are lost or unreadable, or a broker would lose or misread records."""
    WARNING = "warning"
    """Something contradicts the log; a broker repairs it, or no record changes."""
    NOTE = "note"
    """Noteworthy, but normal in some logs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule.

    Attributes:
        id: stable, lower case with dashes.
        group: subject; the rules of a group are listed together.
        severity: severity of its findings by default.
        title: what is wrong if the rule is broken, without a full stop.
        advice: what to do about it, one or two sentences.
    """

    id: str
    group: str
    severity: Severity
    title: str
    advice: str


RULES: dict[str, Rule] = {}
"""All rules by id, in the order of documentation."""


def declare(group: str, severity: Severity, rules: dict[str, tuple[str, str]]) -> None:
    """Register rules of one group and severity: title and advice by id.

    Raises ValueError for an id that is already registered.
    """
    for rule, (title, advice) in rules.items():
        if rule in RULES:
            raise ValueError(f"two rules are called {rule}")
        RULES[rule] = Rule(rule, group, severity, title, advice)
