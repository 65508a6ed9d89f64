"""The result of a rebuild, and the refusal of an empty one."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.log.log_directory import Unread
from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.manifest import Json
from engine.rebuild.selection import LeftOut


@dataclass
class Rebuilt:
    """What came of a rebuild.

    Attributes:
        target: the log dir; None when nothing was written.
        partitions: one report each, as the manifest has it.
        left_out: what of the sources is not in it.
        manifest: all of it.
        lost_something: whether records may be missing that nobody asked to leave out.
        unread: files and folders of the sources that could not be read.
        unread_partitions: the partitions of which nothing could be read; they are left out.
        removed: what interrupted runs had left, and this one removed.
    """

    target: str | None
    partitions: list[Json]
    left_out: list[LeftOut]
    manifest: Json
    lost_something: bool
    unread: list[Unread]
    unread_partitions: list[str]
    removed: list[str] = field(default_factory=list)


class EmptyResultError(RebuildRefusedError):
    """No record would be in the result.

    Attributes:
        result: what there is to say of each partition; nothing is written.
    """

    def __init__(self, reason: str, hint: str, result: Rebuilt) -> None:
        super().__init__(reason, hint)
        self.result = result
