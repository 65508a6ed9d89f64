"""Options of a rebuild."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from engine.cut.moment import Moment
from engine.json_facts import facts_of
from engine.log.view.log_bound import LogBound


class Mode(Enum):
    """Ways to treat damage."""

    SALVAGE = "salvage"
    BROKER = "broker"


@dataclass(frozen=True)
class RebuildOptions:
    """Options of a rebuild.

    Attributes:
        mode: SALVAGE keeps every good batch, BROKER loads a copy as a broker does when it starts.
        topics, partitions: the lists of a `PartitionChoice`; none for all.
        renames: new names of topics and partitions by their old ones, as `engine.log.renames` has them.
        topic_ids: ids, in base64, by the topics' names in the result.
        at: the logs as they were at this moment, with the topics of then; without `stop`.
        start, stop: keep the records from `start` on, and below `stop`.
        whole_batches: keep batches across a bound whole.
        deleted: restore the batches of .deleted files.
        below_log_start: restore the records below the log start.
        meta_properties: whether to copy the source's meta.properties.
        clean: whether BROKER assumes a clean stop; None for what the source states.
        allow_empty: whether to allow a result without records, or a bound past the end of every log.
        owner: user and group id of all files; None for those of this process.
        merge_strangers: merge also logs of another cluster or with another topic id.
        jobs: number of processes, and of threads, that work at the same time.
    """

    mode: Mode = Mode.SALVAGE
    topics: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    at: Moment | None = None
    start: LogBound | None = None
    stop: LogBound | None = None
    whole_batches: bool = False
    deleted: bool = False
    below_log_start: bool = False
    meta_properties: bool = True
    clean: bool | None = None
    allow_empty: bool = False
    owner: tuple[int, int] | None = None
    merge_strangers: bool = False
    jobs: int = 1

    @property
    def salvages_only(self) -> list[str]:
        """Requested options that BROKER does not have."""
        asked = {
            **facts_of(self, "at from=start to=stop deleted"),
            "below-log-start": self.below_log_start,
            "whole-batches": self.whole_batches,
        }
        return [name for name, value in asked.items() if value]
