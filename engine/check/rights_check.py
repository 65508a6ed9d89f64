"""Check whether the user of a broker may use the files of its log dirs, and whether it could write there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from engine.check.rules.finding import Finding, found
from engine.check.rules.rules import Severity
from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.rights.broker_user import BrokerUser
from engine.rights.file_rights import Denied, FileRights, write_problem


def check_rights(
    source: LogSource,
    log_dir: SourceRoot,
    *,
    user: BrokerUser | None,
    takes: Callable[[PartitionLog], bool],
) -> Iterator[Finding]:
    """Yield findings about files of a log dir that the broker's user may not use. Raises OSError.

    Args:
        source: the source.
        log_dir: one of its log dirs.
        user: the user; None for that of the broker that runs, else the owner of the log dir.
        takes: returns whether to look at a partition's files.
    """
    problem = write_problem(log_dir)
    if problem is not None:
        severity = advice = None
        if problem.is_copy:
            severity, advice = Severity.NOTE, "Right for evidence; let a broker start on a copy."
        yield found("file-system", log_dir.path, problem.sentence, severity=severity, advice=advice)
    rights = FileRights(log_dir, user)
    yield from map(_denied, rights.log_dir())
    for log in source.partitions().values():
        above, name = os.path.split(log.root.display(log.folder))
        if above == log_dir.path and takes(log):
            yield from map(_denied, rights.log(name))


def _denied(denied: Denied) -> Finding:
    return found(
        "file-rights",
        denied.path,
        denied.sentence,
        facts={"user": denied.user, "missing": denied.missing.words},
    )
