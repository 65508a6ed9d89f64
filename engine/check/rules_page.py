"""RULES.md: the table of all rules, made from where they are declared."""

from __future__ import annotations

import sys

from engine.check.rules import RULES

_HEAD = """\
# The rules of `kafkafs check`

Ids are stable. An *error* means that records are lost or unreadable, or that a broker would lose or misread
some; a *warning* that something contradicts the log, which a broker heals or which changes no record; a *note*
is worth knowing and normal in some logs, and does not count for the exit status. A finding can be milder or
graver than its rule where the rest of the log says so.

This page is made by `python -m engine.check.rules_page`.
"""


def rules_page() -> str:
    """The page's text."""
    parts = [_HEAD]
    for group in dict.fromkeys(rule.group for rule in RULES.values()):
        parts.append(
            f"\n## {group.capitalize()}\n\n| rule | severity | what is wrong | what to do |\n"
        )
        parts.append("|---|---|---|---|\n")
        parts += (
            f"| `{rule.id}` | {rule.severity.value} | {rule.title} | {rule.advice} |\n"
            for rule in RULES.values()
            if rule.group == group
        )
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(rules_page())
