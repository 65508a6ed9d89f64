"""The rules of `check`: stable ids, severities, and what to do about a breach. RULES.md declares them, in its tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from engine import check
from engine.package_text import package_text

_GROUP_OR_ROW = re.compile(r"^## (.+)$|^\| `([\w-]+)` \| (\w+) \| (.+?) \| (.+) \|$", re.MULTILINE)


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


def rules_of(page: str) -> Mapping[str, Rule]:
    """Return the rules in the tables of a page by their ids, in its order.

    Raises:
        ValueError: two rules have the same id, or a severity is unknown.
    """
    found: dict[str, Rule] = {}
    group = ""
    for heading, rule, severity, title, advice in _GROUP_OR_ROW.findall(page):
        group = heading.lower() or group
        if rule in found:
            raise ValueError(f"two rules are called {rule}")
        if rule:
            found[rule] = Rule(rule, group, Severity(severity), title, advice)
    return found


RULES = rules_of(package_text(check.__name__, "RULES.md"))
"""All rules by id, in the order of documentation."""
