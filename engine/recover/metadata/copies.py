"""All copies of a cluster's metadata log, read as one: the newest, with its holes filled from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from engine.errors import KafkaStorageError
from engine.files.file_names import kraft_checkpoint_name
from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from engine.plan.planned_cluster import stated_voters, voters_in
from engine.rebuild.assembly.lineage import latest_epoch
from engine.rebuild.assembly.merging import MergedCopies
from engine.recover.metadata.quorum import CopyEnd, QuorumEnds, acted_on, counting, quorum_ends
from engine.replay.cluster import (
    ClusterChange,
    ClusterImage,
    ReadAtStart,
    SnapshotRead,
    cluster_changes,
    image_at_start,
    read_snapshot,
)
from engine.replay.partition_records import Replayed, Unreadable, no_progress, records_of_run
from engine.replicas.choice import CopyFacts, Lineage, agreement
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT64, Offset, TopicPartition

_METADATA = TopicPartition(CLUSTER_METADATA, 0)
_MOST_SENTENCES = 20


class MetadataCopies:
    """The copies of `__cluster_metadata-0` in some sources, as one log.

    Args:
        sources: sources of one cluster.
        reads: whether to read them; without, only `highest` is found.
        live: returns the ids of topics that have a folder; None to take all of the newest copy for committed.
        until: only what is below this offset counts.

    Attributes:
        image: the cluster; None without a readable copy.
        origin: path of the leading copy and how many there are.
        end: last leader epoch and end offset of the log.
        committed: what lies below this offset is committed, see `quorum`; None if that is not asked.
        highest: largest leader epoch and offset of all copies, also of their snapshots.
        credentials: SCRAM credentials by user and number of the mechanism, as in UserScramCredentialRecord's JSON.
        removed: names of removed topics by id, as far as the log tells.
        problems: sentences about what is not known.
    """

    def __init__(
        self,
        sources: Sequence[LogSource],
        *,
        reads: bool = True,
        live: Callable[[], frozenset[str]] | None = None,
        until: Offset = MAX_INT64,
    ) -> None:
        self.image: ClusterImage | None = None
        self.origin = "no metadata log"
        self.end: tuple[int, Offset] = (-1, 0)
        self.highest: tuple[int, Offset] = (-1, 0)
        self.credentials: Mapping[tuple[str, int], Mapping[str, Any]] = {}
        self.removed: Mapping[str, str] = {}
        self.problems: list[str] = []
        self.committed: Offset | None = None
        self._live = live
        self._until = until
        nodes = _nodes(sources)
        views, of = [], []
        for log in self.logs_in(sources):
            try:
                view = log.view()
                self._raise_highest(view)
                views.append(view)
                of.append(nodes.get(log.root.path))
            except (KafkaStorageError, OSError) as error:
                self.problems.append(f"{log.root.display(log.folder)} cannot be read: {error}")
        if reads and views:
            self._read(views, of)

    @staticmethod
    def logs_in(sources: Iterable[LogSource]) -> list[PartitionLog]:
        """Return all copies of the metadata log, also those of second log dirs."""
        return [
            log
            for source in sources
            for name, log in source.partitions().items()
            if log.topic_partition == _METADATA and name.partition("@")[0] == str(_METADATA)
        ]

    def _raise_highest(self, view: LogView) -> None:
        latest = view.leader_epochs.latest
        epoch, end = -1 if latest is None else latest.epoch, view.log_end_offset
        for snapshot in view.kraft_snapshots:
            epoch, end = max(epoch, snapshot.epoch), max(end, snapshot.end_offset)
        self.highest = max(self.highest[0], epoch), max(self.highest[1], end)

    def _read(self, views: Sequence[LogView], nodes: Sequence[int | None]) -> None:
        merged = MergedCopies(views, no_progress)
        snapshot = self._newest_snapshot(views)
        start = snapshot.id.end_offset if snapshot is not None else 0
        unreadable: list[Unreadable] = []
        notes: list[str] = []
        self._check_holes(merged, max(start, 0))
        changes: Sequence[ClusterChange] = list(
            cluster_changes(_records(merged, max(start, 0)), unreadable, notes)
        )
        if not changes and snapshot is None:
            self.problems.append(f"no copy of {_METADATA} has a record that can be read")
            return
        latest = merged.epochs.latest
        epoch = max(
            -1 if latest is None else latest.epoch,
            snapshot.id.epoch if snapshot is not None else -1,
        )
        held = () if snapshot is None else snapshot.changes
        read = ReadAtStart(None if snapshot is None else snapshot.id, held, changes)
        end = max([start, *(piece.next_offset for piece in merged.pieces[-1:])])
        image = image_at_start(merged.view, read)
        counted = (
            changes
            if self._live is None
            else self._counted(read, self._live, end, _ends(merged, nodes, image, end, start))
        )
        counted = [each for each in counted if each.offset < self._until]
        if len(counted) < len(changes):
            changes = counted
            image = image_at_start(merged.view, read._replace(changes=changes))
        self.image = image
        self.end = epoch, end
        self.highest = max(self.highest[0], epoch), max(self.highest[1], self.end[1])
        leading = merged.view.log
        of = f", the newest of {len(views)} copies" if len(views) > 1 else ""
        self.origin = f"{leading.root.display(leading.folder)}{of}"
        self._fold(held, changes)
        self._tell(unreadable, notes)

    def _counted(
        self,
        read: ReadAtStart,
        live: Callable[[], frozenset[str]],
        end: Offset,
        ends: QuorumEnds,
    ) -> Sequence[ClusterChange]:
        """Return the changes of the newest copy that count, and tell of the others."""
        if ends.committed >= end:
            self.committed = end
            return read.changes
        ids = live()
        ends = ends.at_least(acted_on(read.changes, ids))
        names = {
            each.facts["topicId"]: each.facts["name"]
            for each in (*read.held, *read.changes)
            if each.kind == "TOPIC_RECORD"
        }
        counted, sentences = counting(read.changes, ends, ids, names)
        self.problems += sentences
        self.committed = ends.committed
        return counted

    def _newest_snapshot(self, views: Sequence[LogView]) -> SnapshotRead | None:
        """Return the newest whole snapshot of all copies."""
        found = [
            (snapshot, view)
            for view in views
            for snapshot in view.kraft_snapshots
            if snapshot.end_offset <= self._until
        ]
        found.sort(key=lambda each: (each[0].epoch, each[0].end_offset), reverse=True)
        for snapshot_id, view in found:
            notes: list[str] = []
            read = read_snapshot(view.log, snapshot_id, notes)
            if read is not None and read.is_whole:
                return read
            name = view.log.root.display(view.log.relative(kraft_checkpoint_name(*snapshot_id)))
            self.problems.append(f"{name} is not whole: another copy or an older one is used")
        return None

    def _check_holes(self, merged: MergedCopies, start: Offset) -> None:
        """Add a sentence for each range of offsets behind the snapshot that no copy has."""
        expected = start
        for piece in merged.pieces:
            if piece.next_offset <= expected:
                continue
            if piece.base_offset > expected:
                self._tell_hole(expected, piece.base_offset)
            expected = piece.next_offset
        if expected < merged.largest_end and merged.pieces:
            self._tell_hole(expected, merged.largest_end)

    def _tell_hole(self, first: Offset, stop: Offset) -> None:
        if first >= self._until:
            return
        self.problems.append(
            f"no copy has the offsets {first} to {stop - 1} of {_METADATA}: what changed there is not known"
        )

    def _fold(self, held: Sequence[ClusterChange], changes: Sequence[ClusterChange]) -> None:
        """Collect the secrets, which a ClusterImage does not have, and the removed topics."""
        credentials: dict[tuple[str, int], Mapping[str, Any]] = {}
        names: dict[str, str] = {}
        removed: dict[str, str] = {}
        for change in (*held, *_effective(changes)):
            facts = change.facts
            if change.kind == "USER_SCRAM_CREDENTIAL_RECORD":
                credentials[facts["name"], facts["mechanism"]] = facts
            elif change.kind == "REMOVE_USER_SCRAM_CREDENTIAL_RECORD":
                credentials.pop((facts["name"], facts["mechanism"]), None)
            elif change.kind == "TOPIC_RECORD":
                names[facts["topicId"]] = facts["name"]
            elif change.kind == "REMOVE_TOPIC_RECORD":
                removed[facts["topicId"]] = names.get(facts["topicId"], "")
        self.credentials, self.removed = credentials, removed

    def _tell(self, unreadable: Sequence[Unreadable], notes: Sequence[str]) -> None:
        assert self.image is not None
        if self.image.waiting is not None:
            self.problems.append(
                f"a metadata transaction did not end: its {len(self.image.waiting)} records are left out"
            )
        found = [f"{each.file} at byte {each.position}: {each.reason}" for each in unreadable]
        found += [*notes, *self.image.notes]
        self.problems += found[:_MOST_SENTENCES]
        if len(found) > _MOST_SENTENCES:
            more = len(found) - _MOST_SENTENCES
            self.problems.append(f"{more} further records of {_METADATA} are unreadable or odd")
        for item in self.image.table("other").values():
            self.problems.append(
                f"a record of the type {item.facts['type']} is not known, and is left out"
            )


def _records(merged: MergedCopies, start: Offset) -> Iterator[Replayed]:
    """Yield the records of the merged log from an offset on."""
    log = merged.view.log
    for piece in merged.pieces:
        if piece.next_offset <= start:
            continue
        path = "" if piece.origin is None else piece.origin.path
        for run in piece.runs():
            for record in records_of_run(run, log.budgets, str(_METADATA), path):
                if isinstance(record, Unreadable) or record.offset >= start:
                    yield record


def _nodes(sources: Iterable[LogSource]) -> dict[str, int | None]:
    """Return the node id by the path of a log dir."""
    return {
        root.path: None if stated is None else stated.node_id
        for source in sources
        for root, stated in zip(source.roots, source.meta_properties, strict=True)
    }


def _ends(
    merged: MergedCopies,
    nodes: Sequence[int | None],
    image: ClusterImage,
    end: Offset,
    proven: Offset,
) -> QuorumEnds:
    """Return how far the newest copy is committed, by the copies of the voters."""
    facts = []
    for at, view in enumerate(merged.views):
        pieces, epochs = merged.copies[at].pieces, merged.known_epochs[at]
        last = Lineage(latest_epoch(pieces, epochs), merged.copies[at].log_end_offset)
        facts.append(
            CopyFacts("", nodes[at], None, None, view.log_start_offset, last, epochs, None, None)
        )
    copies = []
    for at, view in enumerate(merged.views):
        held = merged.copies[at].log_end_offset
        agreed = agreement(facts[merged.leading], facts[at])
        agreed = max([agreed, *(each.end_offset for each in view.kraft_snapshots)])
        is_whole = merged.proven_ends[at].offset <= held and not merged.copies[at].dropped
        copies.append(CopyEnd(nodes[at], agreed, is_whole))
    voters = voters_in(image) or next(
        filter(None, map(stated_voters, merged.views, nodes)), frozenset()
    )
    return quorum_ends(copies, voters, end, proven)


def _effective(changes: Iterable[ClusterChange]) -> Iterator[ClusterChange]:
    """Yield the changes without those of metadata transactions that were aborted or did not end."""
    waiting: list[ClusterChange] | None = None
    for change in changes:
        if change.kind == "BEGIN_TRANSACTION_RECORD":
            waiting = []
        elif change.kind == "ABORT_TRANSACTION_RECORD":
            waiting = None
        elif change.kind == "END_TRANSACTION_RECORD":
            yield from waiting or ()
            waiting = None
        elif waiting is not None:
            waiting.append(change)
        else:
            yield change
