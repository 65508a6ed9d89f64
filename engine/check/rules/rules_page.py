"""RULES.md: the table of all rules, made from where they are declared."""

from __future__ import annotations

import sys

from engine.check.rules.rules import RULES

_HEAD = """\
# The rules of `kafkafs check`

Ids are stable. An *error* means that records are lost or unreadable, or that a broker would lose or misread
some; a *warning* that something contradicts the log, which a broker heals or which changes no record; a *note*
is worth knowing and normal in some logs, and does not count for the exit status. A finding can be milder or
graver than its rule where the rest of the log says so.

This page is made by `python -m engine.check.rules.rules_page`.
"""

_UNPROVABLE = """
## What nothing on disk can prove

These changes leave a log dir as a broker could have left it. No rule finds them; a replica, or the cluster, can
tell (`kafkafs check --replica`).

- Another `cluster.id` in a `meta.properties` where no other log dir of the broker is named; without
  `__cluster_metadata-0` in the source, another `node.id` or `directory.id`, or none, too.
- Another topic id in the only `partition.metadata` of a topic, without `__cluster_metadata-0`.
- Whole batches gone from a compacted log, or a batch moved into a gap that compaction left.
- The last batches of a log that a broker had open, where no checkpoint and no snapshot names an offset behind them.
- A line gone from an offset checkpoint, or another offset there that the log has.
- Leader epochs that begin later, in a log that a broker had open: DeleteRecords leaves the same.
- Another number in `.kafka_cleanshutdown` or `quorum-state`, or the file gone.
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
    return "".join([*parts, _UNPROVABLE])


if __name__ == "__main__":
    sys.stdout.write(rules_page())
