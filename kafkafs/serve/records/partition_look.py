"""What Fetch knows of a partition between two looks at its files."""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias
from weakref import ref

from engine.files.source_files import SourceFile
from engine.log.partition_log import MAX_AGE, PartitionLog
from engine.log.segment.log_segment import LogSegment
from engine.log.view.log_view import LogView
from engine.units import Offset, Position
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.quick import extension
from kafkafs.serve.records.proven_ranges import FileProof, ProvenRanges

if TYPE_CHECKING:
    from kafkafs.serve.quick.compiled import ReadyPartition

UNKNOWN_OFFSET = -1
_CHEAP_LOG = 16 * 1024 * 1024
"""Size of a log that is read for its open transactions, though the consumer does not ask for committed records."""

Key: TypeAlias = tuple[str, int]
"""Name or id of a topic, and number of a partition."""


class PartitionLook:
    """A log as it was at one moment.

    Attributes:
        log, view: the log, and what it was.
        until: time on the monotonic clock from which the log has to be looked at again.
        ready: what the quick way of Fetch may use; None without the extension.

    Args:
        proven: what is proven of the files of the source.

    Raises:
        OSError: the log cannot be read, or is gone.
    """

    __slots__ = (
        "_last_proof",
        "_proven",
        "_proven_file",
        "_stable",
        "log",
        "ready",
        "until",
        "view",
    )

    def __init__(self, log: PartitionLog, proven: ProvenRanges) -> None:
        self.log = log
        self.view: LogView = log.view()
        self.until = inf if log.frozen else log.looked_at + MAX_AGE
        self._proven = proven
        self._stable: Offset | None = None
        # Weak: the file is closed when others are used, however many partitions clients read.
        self._proven_file: ref[SourceFile] | None = None
        self._last_proof = FileProof()
        self.ready: ReadyPartition | None = None
        if extension is not None:
            view = self.view
            self.ready = extension.ReadyPartition(
                self.until, view.log_start_offset, view.log_end_offset
            )

    def stable_offset(self, *, committed: bool) -> Offset:
        """Return the last stable offset; -1 if it is not asked for and a long log would have to be read."""
        known = self._stable
        if known is None or (committed and known == UNKNOWN_OFFSET):
            view = self.view
            is_cheap = committed or view.listing.producer_snapshots or view.size < _CHEAP_LOG
            known = self._stable = view.last_stable_offset if is_cheap else UNKNOWN_OFFSET
        return known

    def proof(self, file: SourceFile) -> FileProof:
        """Return what is proven of an open records file of the log."""
        if self._proven_file is None or self._proven_file() is not file:
            self._last_proof = self._proven.of(file, self.view.rewrites)
            self._proven_file = ref(file)
        return self._last_proof

    def know_good(self, segment: LogSegment, file: SourceFile, position: Position) -> None:
        """Let the quick way of Fetch have the proven batches around a position of a segment."""
        if extension is None or self.ready is None:
            return
        proof, view = self.proof(file), self.view
        self.ready.add(
            extension.ReadySegment(
                segment.files,
                ref(file),
                view.next_base(segment),
                segment.end,
                proof.good_part(position),
                segment.budgets.batch_bytes,
                not proof.has_transactions and not view.abort_bases,
            ),
            self.stable_offset(committed=False),
        )


class PartitionLooks:
    """The newest look at each partition that clients read; safe from several threads.

    Args:
        cluster: the source.

    Attributes:
        by_name, by_id: the looks, which may be outdated, by name and by id of the topic.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._proven = ProvenRanges()
        self._topics: object = None
        self.by_name: dict[Key, PartitionLook] = {}
        self.by_id: dict[Key, PartitionLook] = {}

    def of(self, key: Key, *, has_id: bool) -> PartitionLook | None:
        """Return a partition as it is now, or was a moment ago; None if the source does not have or serve it.

        Args:
            key: the partition.
            has_id: whether the key has the topic's id, not its name.

        Raises:
            OSError: the log cannot be read, or is gone.
        """
        known = self.by_id if has_id else self.by_name
        found = known.get(key)
        if found is None or monotonic() >= found.until:
            found = self._look(key, known, has_id=has_id)
        return found

    def _look(
        self, key: Key, known: dict[Key, PartitionLook], *, has_id: bool
    ) -> PartitionLook | None:
        topics = self._cluster.topics()
        if topics is not self._topics:  # some may be gone
            self.by_name.clear()
            self.by_id.clear()
            self._topics = topics
        topic, number = key
        found = self._cluster.topic_of_id(topic) if has_id else topics.get(topic)
        log = None if found is None else found.logs.get(number)
        if log is None:
            return None
        look = known[key] = PartitionLook(log, self._proven)
        return look
