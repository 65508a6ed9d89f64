"""`kafkafs offsets --at … --explain`: what the end of each log at a moment is known by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.cut.cluster_cut import ClusterCut
from engine.log.partition_log import PartitionLog
from kafkafs.cli.printing.terminal.output import say
from kafkafs.cli.printing.terminal.table import duration, moment, print_json, print_table


def print_evidence(
    cut: ClusterCut, takes: Callable[[PartitionLog], bool], *, as_json: bool
) -> bool:
    """Print the ends of the chosen logs with their evidence; return whether there are any.

    Raises OSError, UnsupportedCodecError.
    """
    facts = cut.facts(takes)
    logs: list[dict[str, Any]] = facts["partitions"]
    if as_json:
        print_json(facts)
        return bool(logs)
    header = ("TOPIC", "PARTITION", "END", "LOG-END", "EVIDENCE", "GONE-SINCE")
    keys = ("topic", "partition", "end", "logEnd", "evidence", "gone")
    print_table(header, ([log[key] for key in keys] for log in logs), keys=2)
    for each in facts["transactions"]:
        end = "committed" if each["end"] == "COMMIT" else "aborted"
        say(f"transaction of producer {each['producerId']}: {end}, for {each['evidence']}")
    clocks = (
        f"clocks that differ by {duration(facts['skewMs'])} were seen" if facts["skewMs"] else ""
    )
    say(f"moment: {moment(facts['time'])}; {clocks or 'no difference of clocks was seen'}")
    if not facts["hasMetadata"]:
        say("topics: all folders, as the source has no metadata of then")
    return bool(logs)
