"""What may be deleted now without a loss, and what must not, with the reason."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.files.file_names import FolderState
from engine.units import TopicPartition
from engine.usage.disk_usage import Bytes, FolderUsage
from engine.usage.file_kinds import UsageKind

MOST_PATHS = 20
_FILES_MAY_GO = {
    UsageKind.DELETED: "retention, compaction or a truncation took it out of its log; a broker removes it"
    " file.delete.delay.ms later, or when it starts",
    UsageKind.CLEANED: "an unfinished compaction: a start removes it, and the segments that it was made"
    " from are still there",
    UsageKind.TIERED_CACHE: "indexes of the remote tier: a broker fetches them again; stop it first",
}
_FILES_MUST_STAY = {
    UsageKind.SWAP: "a finished compaction or split: it is the segment, and a start gives it its name",
}
_FOLDER_MAY_GO = (
    "a deleted topic, or a replica that was moved away: a broker removes it file.delete.delay.ms later,"
    " also after a start; to take records out of it first, kafkafs reads it"
)
_STRAY = (
    "the metadata did not name this broker for it when the broker started: it may be the only copy of its"
    " records; compare it with the other replicas first (kafkafs check --replica)"
)
_FUTURE = "a move to this log dir goes on: a start continues it"
_FUTURE_ALONE = "a move to this log dir that lost its log: no folder of SOURCE has the log itself"


@dataclass
class Advice:
    """A kind of files or folders, with what deleting them would do.

    Attributes:
        may_go: whether they may be deleted without a loss.
        kind: a UsageKind's value, or the suffix of folders: "-delete", "-stray", "-future".
        reason: why, as a sentence without its capital.
        total: their bytes.
        paths: the folders that they are or are in, at most MOST_PATHS.
        others: number of further folders.
    """

    may_go: bool
    kind: str
    reason: str
    total: Bytes = field(default_factory=Bytes)
    paths: list[str] = field(default_factory=list)
    others: int = 0

    def add(self, path: str, size: Bytes) -> None:
        """Count a folder."""
        self.total.add(size)
        if len(self.paths) < MOST_PATHS:
            self.paths.append(path)
        else:
            self.others += 1

    def facts(self) -> dict[str, Any]:
        """Return the advice for JSON."""
        return {
            "kind": self.kind,
            "mayGo": self.may_go,
            "reason": self.reason,
            **self.total.facts(),
            "paths": self.paths,
            "others": self.others,
        }


def advice(folders: Iterable[FolderUsage], logs: Container[TopicPartition | None]) -> list[Advice]:
    """Return what may go, the largest first, then what must stay.

    Args:
        folders: the folders to judge.
        logs: the partitions that have a log in the source.
    """
    found: dict[tuple[str, str], Advice] = {}
    for folder in folders:
        for may_go, kind, reason, size in _judged(folder, logs):
            known = found.setdefault((kind, reason), Advice(may_go, kind, reason))
            known.add(folder.path, size)
    return sorted(found.values(), key=lambda each: (not each.may_go, -each.total.allocated))


def _judged(
    folder: FolderUsage, logs: Container[TopicPartition | None]
) -> Iterator[tuple[bool, str, str, Bytes]]:
    state = folder.state
    if state is FolderState.LOG:
        yield from _kinds(folder.kinds)
    elif state is FolderState.DELETE:
        yield True, state.value, _FOLDER_MAY_GO, folder.total
    elif state is FolderState.STRAY:
        yield False, state.value, _STRAY, folder.total
    else:
        reason = _FUTURE if folder.partition in logs else _FUTURE_ALONE
        yield False, state.value, reason, folder.total


def _kinds(kinds: Mapping[UsageKind, Bytes]) -> Iterator[tuple[bool, str, str, Bytes]]:
    for kind, size in kinds.items():
        if kind in _FILES_MAY_GO:
            yield True, kind.value, _FILES_MAY_GO[kind], size
        elif kind in _FILES_MUST_STAY:
            yield False, kind.value, _FILES_MUST_STAY[kind], size
