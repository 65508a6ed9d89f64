"""What a rebuild is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from engine.units import Offset, Timestamp


class Mode(Enum):
    """What becomes of what is damaged."""

    SALVAGE = "salvage"
    BROKER = "broker"


class RebuildBound(NamedTuple):
    """Where a cut begins or ends: at an offset, or at the first record at or after a time. One of the two."""

    offset: Offset | None = None
    timestamp: Timestamp | None = None


@dataclass(frozen=True)
class RebuildOptions:
    """What a rebuild is asked to do.

    Attributes:
        mode: SALVAGE keeps every good batch, BROKER does what a broker does when it starts.
        topics: shell patterns of topics, or of folders; none for all topics.
        renames: new names of topics by their old ones.
        topic_ids: ids, in base64, of topics by the names they have in the result.
        start, stop: keep the records from one on, and below the other.
        whole_batches: keep batches whole that hold records on both sides of a bound.
        deleted: bring back what the .deleted files hold.
        below_log_start: bring back the records below the log start.
        meta_properties: whether the result gets the source's meta.properties.
        clean: whether BROKER takes the last stop for a clean one; None for what the source says.
        allow_empty: whether a result without records, or a bound past the end of every log, is what is wanted.
        owner: user and group id of all files; None for whoever runs this.
    """

    mode: Mode = Mode.SALVAGE
    topics: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    start: RebuildBound | None = None
    stop: RebuildBound | None = None
    whole_batches: bool = False
    deleted: bool = False
    below_log_start: bool = False
    meta_properties: bool = True
    clean: bool | None = None
    allow_empty: bool = False
    owner: tuple[int, int] | None = None

    @property
    def salvages_only(self) -> list[str]:
        """What is asked for that a broker does not do."""
        asked = {
            "from": self.start,
            "to": self.stop,
            "deleted": self.deleted,
            "below-log-start": self.below_log_start,
            "whole-batches": self.whole_batches,
        }
        return [name for name, value in asked.items() if value]
