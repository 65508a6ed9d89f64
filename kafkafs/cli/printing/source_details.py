"""What a verbose command prints about its source: what it reads, and what it passes over and why."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from kafkafs.amounts import counted
from kafkafs.cli.printing.terminal.verbosity import detail

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource
    from engine.log.partition_log import PartitionLog

_APART = {
    "-delete": "a broker was deleting it",
    "-future": "a broker was moving it to another log dir",
    "-stray": "a broker set it aside as stray",
}


def print_opened(source: LogSource) -> None:
    """Print the paths of a source, and the entries that are no log."""
    logs = source.partitions()
    for root in source.roots:
        here = sum(log.root is root for log in logs.values())
        detail(f"reading {root.path}: {counted(here, 'partition')}")
    pid = source.broker_pid
    if pid is not None:
        detail(f"a broker writes to it (process {pid})" if pid else "a broker writes to it")
    for log in logs.values():
        reason = _reason_apart(log)
        if reason:
            detail(f"apart from the logs: {log.root.display(log.folder)}: {reason}")
    for other in source.others:
        detail(f"skipped: {other.root.display(other.name)}: {other.reason}")


def _reason_apart(log: PartitionLog) -> str | None:
    from engine.files.file_names import parse_folder_name

    if not log.folder or log.name == str(log.topic_partition):
        return None
    if "@" in log.name:
        return "a second copy; the first one is the log"
    return _APART.get(parse_folder_name(log.folder).state.value)


def print_passed_over(source: LogSource) -> None:
    """Print the problems of files that were read. Unreadable files are errors: every command prints those."""
    logs = source.partitions(max_age=inf)
    for entry in source.problems:
        if "errno" not in entry:
            log = logs.get(entry.get("partition", ""))
            file = entry["file"] if log is None else log.display(entry["file"])
            place = f", byte {entry['position']}" if "position" in entry else ""
            detail(f"{file}{place}: {entry['reason']}")
