"""What all nodes of one tree share: the source, the options, the caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.log.log_directory import LogSource
from engine.replay.source_state import SourceState
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.record_batches import BatchCache
from kafkafs.tree.listing import FolderSlots
from kafkafs.tree.owner import Owner
from kafkafs.tree.plain_files import Memo
from kafkafs.tree.streams import Streams

TTL_FROZEN = 3600.0
TTL_LIVE = 0.5
TTL_AT_REST = 1.0

_BATCHES_SHARE = 16 * MiB
"""Of the cached bytes, what single records may take."""
_MADE_SHARE = 8 * MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """How a tree shows what it shows.

    Attributes:
        values: the form of keys and values in record lines: auto, text, json, base64, hex or none.
        snapshot: nothing changes: every answer may be kept for long (so it is for a source that was
            opened as a snapshot in any case).
        budgets: bounds of memory.
    """

    values: str = "auto"
    snapshot: bool = False
    budgets: Budgets = field(default=DEFAULT_BUDGETS)


class StatusProvider(Protocol):
    """The files of `.kafkafs/` beside those that the tree has itself; their content may change any time."""

    def names(self) -> Sequence[str]:
        """The files, in order; a name of the tree's own (version, problems) takes its place."""

    def read(self, name: str) -> bytes:
        """A file's bytes now. Raises KeyError for a name that is not there."""


class Context:
    """Shared by the nodes of one tree; safe from several threads."""

    def __init__(
        self, source: LogSource, options: TreeOptions, status: StatusProvider | None
    ) -> None:
        self.source = source
        self.options = options
        self.status = status
        budgets = options.budgets
        share = min(_BATCHES_SHARE, budgets.cached_bytes // 4)
        self.batches = BatchCache(share)
        self.chunks = ChunkCache(budgets.cached_bytes - share)
        self.streams = Streams(self.chunks, budgets)
        self.memo = Memo(_MADE_SHARE)
        self.state = SourceState(source)
        self.slots = FolderSlots()
        self._root_owner: Owner | None = None

    @property
    def budgets(self) -> Budgets:
        """The bounds in use."""
        return self.options.budgets

    @property
    def is_snapshot(self) -> bool:
        """Whether the source is frozen."""
        return self.options.snapshot or self.source.is_snapshot

    @property
    def is_live(self) -> bool:
        """Whether a broker has the source open."""
        return self.source.broker_pid is not None

    def ttl(self, is_live: bool) -> float:
        """For how long, in seconds, an answer may be kept."""
        if self.is_snapshot:
            return TTL_FROZEN
        return TTL_LIVE if is_live else TTL_AT_REST

    def root_owner(self) -> Owner:
        """Whose the mount's own folders are: the first log dir's owner, also when that is gone."""
        try:
            self._root_owner = Owner.of(self.source.roots[0].stat())
        except OSError:
            if self._root_owner is None:
                raise
        return self._root_owner
