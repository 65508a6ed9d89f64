"""What a rule is, and where all rules are registered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is; notes do not make a log unsound."""

    ERROR = "error"
    """Records are lost or unreadable, or a broker would lose or misread something."""
    WARNING = "warning"
    """Something contradicts the log; a broker heals it, or it changes no record."""
    NOTE = "note"
    """Worth knowing; normal in some logs."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: stable, lower case with dashes.
        group: what it is about; rules of a group stand together.
        severity: of its findings, unless one says otherwise.
        title: what is wrong when it is broken, without a full stop.
        advice: what to do about it, one or two sentences.
    """

    id: str
    group: str
    severity: Severity
    title: str
    advice: str


RULES: dict[str, Rule] = {}
"""All rules by id, in the order they are documented."""


def declare(group: str, severity: Severity, rules: dict[str, tuple[str, str]]) -> None:
    """Register rules of one group and severity: by id, title and advice.

    Raises ValueError for an id that is taken.
    """
    for rule, (title, advice) in rules.items():
        if rule in RULES:
            raise ValueError(f"two rules are called {rule}")
        RULES[rule] = Rule(rule, group, severity, title, advice)
