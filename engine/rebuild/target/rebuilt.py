"""The result of a rebuild, and the refusal of an empty one."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.log.log_directory import Unread
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.selection import LeftOut
from engine.rebuild.target.manifest import Json


@dataclass
class Rebuilt:
    """Result of a rebuild.

    Attributes:
        target: path of the log dir; None if nothing was written.
        partitions: a report for each, as in the manifest.
        left_out: parts of the sources that are left out.
        manifest: the whole manifest.
        lost_something: whether records may be lost that the user wanted.
        unread: files and folders of the sources that could not be read.
        unread_partitions: partitions that could not be read at all; they are left out.
        removed: remains of interrupted runs that were removed.
        made_anew: files beside the records that could not be read, and what the new ones lack.
        no_start: why a broker does not start on the result; None if it does, or if nobody looked.
        strays: logs of the result that a broker sets aside at its start, by the metadata in it.
        forgets_topics: whether the source lacks the metadata log, and so does the result.
    """

    target: str | None
    partitions: list[Json]
    left_out: list[LeftOut]
    manifest: Json
    lost_something: bool
    unread: list[Unread]
    unread_partitions: list[str]
    removed: list[str] = field(default_factory=list)
    made_anew: list[LeftOut] = field(default_factory=list)
    no_start: str | None = None
    strays: tuple[str, ...] = ()
    forgets_topics: bool = False


class EmptyResultError(RebuildRefusedError):
    """The result would have no record.

    Attributes:
        result: the report; nothing is written.
    """

    def __init__(self, reason: str, hint: str, result: Rebuilt) -> None:
        super().__init__(reason, hint)
        self.result = result
