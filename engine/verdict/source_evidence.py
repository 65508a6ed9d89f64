"""Facts about a source that the verdict on each of its logs needs: policies of topics, tiered storage."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from engine.files.file_names import REMOTE_INDEX_CACHE_FOLDER
from engine.log.log_directory import LogSource
from engine.log.log_view import LogView

if TYPE_CHECKING:
    from engine.verdict.missing_folders import MissingFolder


class SourceEvidence:
    """Facts about a source; each is worked out at its first use.

    Attributes:
        absent_partitions: the listing that was looked at and the partitions without a folder; None before the first look.
    """

    def __init__(self, source: LogSource) -> None:
        self._source_roots = [root for root in source.log_dirs if root is not None]
        self.absent_partitions: tuple[object, list[MissingFolder]] | None = None
        self._source = source
        self._policy_of: Callable[[str], frozenset[str] | None] | None = None

    def policy_of(self, topic: str) -> frozenset[str] | None:
        """Return a topic's cleanup.policy by the source's own metadata; None if unknown."""
        if self._policy_of is None:
            # Imported here because a source without metadata is read without the replay.
            from engine.verdict.cleanup_policies import cleanup_policies

            self._policy_of = cleanup_policies(self._source)
        return self._policy_of(topic)

    @cached_property
    def has_tiered_storage(self) -> bool:
        """Whether a log dir has the folder that a broker with tiered storage creates in its first one."""
        try:
            return any(
                entry.name == REMOTE_INDEX_CACHE_FOLDER
                for root in self._source_roots
                for entry in root.list()
            )
        except OSError:
            return False


def evidence_of(source: LogSource) -> SourceEvidence:
    """Return the facts about a source, which keeps them."""
    known = source.facts
    if not isinstance(known, SourceEvidence):
        known = source.facts = SourceEvidence(source)
    return known


def source_of(view: LogView) -> LogSource | None:
    """Return the source of a view; None for one that was made without a source."""
    source = view.log.source
    return source if isinstance(source, LogSource) else None
