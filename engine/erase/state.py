"""What an erase knows while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from engine.erase.choice import Removed
from engine.erase.reach import Unreached
from engine.erase.records_file import FileResult
from engine.erase.scanning import Traces
from engine.log.log_directory import LogSource, Unread
from engine.rebuild.target.manifest import FileHash
from engine.rebuild.target.records_files import WrittenFile


class UncopiedFile(NamedTuple):
    """A file that is not in the target, and why."""

    path: str
    reason: str


@dataclass
class EraseState:
    """What an erase knows of its sources and its target so far.

    Attributes:
        sources: the log dirs, each a source, by the name of their copy.
        removed: the chosen records.
        results: what was done to the records files that were looked into.
        left_out: files that are not in the target.
        before: hashes of the copied files of the sources.
        written: what was written, by path in the target.
        unreached: copies that nobody gave.
        unread: files and folders that could not be read.
        traces: where chosen content still stands.
        equal: records in touched batches that were compared.
        undecided: records of which it could not be said whether they are chosen.
    """

    sources: dict[str, LogSource]
    removed: Removed
    results: list[FileResult] = field(default_factory=list)
    left_out: list[UncopiedFile] = field(default_factory=list)
    before: list[FileHash] = field(default_factory=list)
    written: dict[str, WrittenFile] = field(default_factory=dict)
    unreached: list[Unreached] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    traces: Traces | None = None
    equal: int = 0
    undecided: int = 0
