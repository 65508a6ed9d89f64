"""Generate RULES.md, the page of all rules."""

from __future__ import annotations

import sys

from engine.check.rules.rules import RULES

_HEAD = """\
# The rules of `kafkafs check`

Ids are stable. An *error* means that records are lost or unreadable, or that a broker would lose or misread
records; a *warning* that something contradicts the log, but a broker repairs it or no record changes. A *note* is
normal in some logs and does not affect the exit status. A finding can be more or less severe than its rule,
depending on the rest of the log.

This page is made by `python -m engine.check.rules.rules_page`.
"""

_UNPROVABLE = """
## Changes that cannot be found

After these changes a log dir looks as a broker could have left it. No rule finds them; a comparison with a replica
(`kafkafs check --replica`) or with the cluster can.

- A wrong `cluster.id` in `meta.properties`, if no other log dir of the broker is checked with it; without
  `__cluster_metadata-0` in the source, also a wrong or missing `node.id` or `directory.id`.
- A wrong topic id in the only `partition.metadata` of a topic, without `__cluster_metadata-0`.
- Whole batches missing from a compacted log, or a batch moved into a gap left by compaction.
- Missing last batches of a log that a broker had open, if no checkpoint or snapshot has a higher offset.
- A line missing from an offset checkpoint, or a wrong offset there that is in the log.
- Leader epochs that begin too late, in a log that a broker had open: DeleteRecords has the same effect.
- A wrong number in `.kafka_cleanshutdown` or `quorum-state`, or a missing file.
"""


def rules_page() -> str:
    """Return the page's text."""
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
