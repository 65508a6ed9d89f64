"""State shared by all nodes of a tree: the source, the options, the caches."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from engine.budgets import DEFAULT_BUDGETS, Budgets, MiB
from engine.clock import SYSTEM_CLOCK
from engine.log.log_directory import LogSource
from engine.replay.internal_logs import InternalLogs
from kafkafs.decode.chunk_cache import ChunkCache
from kafkafs.decode.record_batches import BatchCache
from kafkafs.schemas.sources.known_schemas import AUTO, KnownSchemas
from kafkafs.tree.listing import FolderSlots
from kafkafs.tree.made_once import made_once
from kafkafs.tree.owner import Owner
from kafkafs.tree.plain_files import Memo
from kafkafs.tree.streams import Streams

if TYPE_CHECKING:
    from engine.cut.moment import Moment
    from engine.log.segment.problems import ProblemEntry
    from engine.replay.source_state import SourceState
    from kafkafs.decode.searching.key_maps import KeyMaps
    from kafkafs.masking.line_mask import LineMask
    from kafkafs.masking.policy import MaskPolicy
    from kafkafs.tree.tree_mask import TreeMask

TTL_FROZEN = 3600.0
TTL_LIVE = 0.5
TTL_AT_REST = 0.75
"""With the 0.2 s that a list may be old, a change shows within a second, also if no broker is seen at work."""

_BATCHES_SHARE = 16 * MiB
"""Part of the cached bytes for single records."""
_MADE_SHARE = 8 * MiB
_MOST_MOMENTS = 8
"""Moments that are kept open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """Options of a tree.

    Attributes:
        values: the form of keys and values in record lines: auto, text, json, base64, hex or none.
        snapshot: treat the source as frozen, so that every answer may be cached for long. Implied if the source was
            opened as a snapshot.
        at: the moment that the source is opened as of; None for now. Implied if the source was opened so.
        budgets: bounds of memory.
        jobs: number of threads that make a long text which is read once, from start to end.
        schemas: schemas of keys and values: "auto" for those in the source, "none", or paths.
        mask: policy of what is shown of records; None for everything.
    """

    values: str = "auto"
    snapshot: bool = False
    at: Moment | None = None
    budgets: Budgets = field(default=DEFAULT_BUDGETS)
    jobs: int = 1
    schemas: tuple[str, ...] = (AUTO,)
    mask: MaskPolicy | None = field(default=None, repr=False)


class StatusProvider(Protocol):
    """Additional files of `.kafkafs/`. Their content may change at any time."""

    def names(self) -> Sequence[str]:
        """Return the file names in order. A name of the tree's own files (version, problems) replaces that file."""

    def read(self, name: str) -> bytes:
        """Return a file's bytes as of now. Raises KeyError for an unknown name."""


class Context:
    """Shared state of the nodes of one tree. Thread-safe."""

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
        self.slots = FolderSlots()
        self.internal_logs = InternalLogs(source)
        self.schemas = KnownSchemas(source, options.schemas)
        self._root_owner: Owner | None = None

    @made_once
    def state(self) -> SourceState:
        """What Kafka's own topics of the source add up to."""
        # Imported here because only `groups/`, `transactions/` and `cluster/` need it, and it is large.
        from engine.replay.source_state import SourceState

        return SourceState(self.source, logs=self.internal_logs)

    @made_once
    def moments(self) -> OpenMoments:
        """The source at the moments that were asked for last."""
        return OpenMoments()

    def then(self, moment: Moment) -> Context:
        """Return the context of a moment; this one if the source is not shown any later.

        Raises MomentError, SourceError, OSError.
        """
        cut = self.source.cut
        last = SYSTEM_CLOCK.now_ms() if cut is None else cut.time
        if moment.time is not None and moment.time >= last:
            return self
        found = self.moments.context(moment, self)
        then = found.source.cut
        return self if then is None or (cut is not None and then.time > last) else found

    @made_once
    def key_maps(self) -> KeyMaps:
        """The newest offsets of keys, of partitions where several are looked up."""
        # Imported here: most trees search for no key.
        from kafkafs.decode.searching.key_maps import KeyMaps

        return KeyMaps(self.budgets.key_map_bytes)

    @made_once
    def mask(self) -> TreeMask:
        """The mask of a tree with one; `mask_of` asks whether there is one."""
        from kafkafs.tree.tree_mask import TreeMask

        assert self.options.mask is not None
        return TreeMask(self.source, self.options.mask)

    def mask_of(self, topic: str) -> LineMask | None:
        """Return the mask of a topic; None for a topic that is shown as it is."""
        return None if self.options.mask is None else self.options.mask.mask(topic)

    @property
    def problems(self) -> list[ProblemEntry]:
        """The problems of the source; with a mask, without facts from masked records, and with what was refused."""
        # Imported here because a look-up does without it.
        from engine.verdict.source_losses import source_problems

        return source_problems(self.source) if self.options.mask is None else self.mask.problems()

    @property
    def budgets(self) -> Budgets:
        """Bounds of memory."""
        return self.options.budgets

    @property
    def is_snapshot(self) -> bool:
        """Whether the source is frozen."""
        return self.options.snapshot or self.source.is_snapshot

    @property
    def is_live(self) -> bool:
        """Whether a running broker has the source open."""
        return self.source.broker_pid is not None

    def ttl(self, is_live: bool) -> float:
        """Return how many seconds an answer may be cached."""
        if self.is_snapshot:
            return TTL_FROZEN
        return TTL_LIVE if is_live else TTL_AT_REST

    def root_owner(self) -> Owner:
        """Return the owner of the mount's own folders: the first log dir's, or its last known one."""
        try:
            self._root_owner = Owner.of(self.source.roots[0].stat())
        except OSError:
            if self._root_owner is None:
                raise
        return self._root_owner


class OpenMoments:
    """The sources of the moments that were looked up last. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Moment, Context] = OrderedDict()

    def context(self, moment: Moment, now: Context) -> Context:
        """Return the context of a moment's tree. Raises MomentError, SourceError, OSError."""
        # Imported here: most trees are asked for no moment.
        from engine.cut.opening import open_at

        with self._lock:
            known = self._known.pop(moment, None)
            if known is None:
                paths = [root.path for root in now.source.roots]
                source = open_at(paths, moment, snapshot=now.is_snapshot, budgets=now.budgets)
                known = Context(source, replace(now.options, at=moment), None)
            self._known[moment] = known
            if len(self._known) > _MOST_MOMENTS:
                self._known.popitem(last=False)
                gc.collect()  # closes the files that no reader holds; a source is a circle of objects
            return known
