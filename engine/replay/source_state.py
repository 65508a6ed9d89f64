"""State of groups, transactions and the cluster from a source's internal topics, joined with its logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import Any, NamedTuple

from engine.log.log_directory import LogSource
from engine.log.partition_log import PartitionLog
from engine.replay.cluster import ClusterReplay
from engine.replay.groups.group import CommittedOffset, Group, Member
from engine.replay.groups.groups import replay_groups
from engine.replay.groups.known_groups import SHARE, KnownGroups
from engine.replay.groups.share_rows import ShareRow, ShareRows
from engine.replay.groups.shares import SharesImage, replay_shares
from engine.replay.internal_logs import InternalLogs
from engine.replay.log_ends import LogEnds, lag
from engine.replay.partition_records import Progress, no_progress
from engine.replay.transactions import OpenTransaction, open_transactions, replay_transactions
from engine.topics.topic_names import TRANSACTION_STATE
from engine.units import Offset


class GroupRow(NamedTuple):
    """A partition of a group, as kafka-consumer-groups describes it.

    Attributes:
        topic: name, or the topic id if the name is unknown.
        committed: None without a committed offset.
        log_end: None if the source does not have the partition.
        member: the member that has the partition, or None.
    """

    topic: str
    partition: int
    committed: CommittedOffset | None
    log_end: Offset | None
    member: Member | None

    @property
    def lag(self) -> int | None:
        """Offsets between the committed offset and the log end; None if one is unknown."""
        return lag(None if self.committed is None else self.committed.offset, self.log_end)

    def facts(self) -> dict[str, Any]:
        """Return the facts for JSON."""
        offset, member = self.committed, self.member
        return {
            "topic": self.topic,
            "partition": self.partition,
            "currentOffset": None if offset is None else offset.offset,
            "logEndOffset": self.log_end,
            "lag": self.lag,
            "leaderEpoch": None if offset is None else offset.leader_epoch,
            "metadata": None if offset is None else offset.metadata,
            "commitTimestamp": None if offset is None else offset.commit_timestamp,
            "memberId": None if member is None else member.member_id,
            "clientHost": None if member is None else member.client_host,
            "clientId": None if member is None else member.client_id,
        }


class SourceState:
    """Groups, transactions and the cluster of a source. Thread-safe.

    Args:
        source: the source of their topics.
        progress: called with the number of bytes read of these topics.
        logs: the source's internal topics, if the caller has them already.

    Attributes:
        logs: partitions of the internal topics.
        groups, shares, transactions, cluster: the replays.
        ends: the log ends.
        time: the moment that the source is shown as of, in milliseconds; None for now.
    """

    def __init__(
        self,
        source: LogSource,
        progress: Progress = no_progress,
        logs: InternalLogs | None = None,
    ) -> None:
        self.logs = logs = logs or InternalLogs(source)
        self.groups = replay_groups(logs, progress)
        self.shares = replay_shares(logs, progress)
        self.transactions = replay_transactions(logs, progress)
        self.cluster = ClusterReplay(logs, progress)
        self.ends = LogEnds(source)
        self.time = None if source.cut is None else source.cut.time
        self._source = source
        self._lock = Lock()
        self._seen: object = None
        self._ids: dict[PartitionLog, str | None] = {}

    def topic_name(self, topic_id: str) -> str | None:
        """Return the topic name of an id, from the cluster's metadata, else from the folders' partition.metadata."""
        name = None
        if self.cluster.exists:
            name = self.cluster.image().topic_name(topic_id)
        return self._name_by_folder(topic_id) if name is None else name

    @property
    def has_groups(self) -> bool:
        """Whether the source has a topic with groups."""
        return self.groups.exists or self.shares.exists

    def known_groups(self) -> KnownGroups:
        """Return all groups. Raises LimitExceededError, OSError."""
        groups = self.groups.image() if self.groups.exists else None
        shares = self.shares.image() if self.shares.exists else SharesImage(())
        return KnownGroups(groups, shares)

    def lag_rows(self, group: Group, known: KnownGroups) -> Iterable[GroupRow | ShareRow]:
        """Return the rows of a group of any kind. Raises OSError, UnsupportedCodecError."""
        if group.kind == SHARE:
            return self.share_rows(group, known)
        return self.rows(group)

    def share_rows(self, group: Group, known: KnownGroups) -> ShareRows:
        """Return the rows of a share group."""
        return ShareRows(group, known.shares, self.topic_name, self.ends)

    def rows(self, group: Group) -> list[GroupRow]:
        """Return the members' partitions, by member, followed by those with only a committed offset.

        Members with the most partitions come first. Raises OSError, UnsupportedCodecError.
        """
        taken: set[tuple[str, int]] = set()
        rows: list[GroupRow] = []
        members = [(member, sorted(self._assigned(member))) for member in group.members]
        for member, assigned in sorted(members, key=lambda item: -len(item[1])):
            for topic, partition in assigned:
                taken.add((topic, partition))
                rows.append(self._row(group, topic, partition, member))
        for topic, partition in group.offsets:
            if (topic, partition) not in taken:
                rows.append(self._row(group, topic, partition, None))
        return rows

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """Yield the open transactions of all logs, with those that hang. Raises OSError, LimitExceededError."""
        image = self.transactions.image() if self.transactions.exists else None
        is_complete = self._holds_all(TRANSACTION_STATE) and not (image and image.unreadable)
        return open_transactions(self._source, image, is_complete=is_complete)

    def _holds_all(self, topic: str) -> bool:
        """Return whether all partitions of an internal topic are present and readable, as far as known.

        The cluster's metadata has their number; without it, only gaps in the partition numbers show missing ones.
        """
        logs = self.logs.of(topic)
        if any(log.view_or_none() is None or log.has_unread for log in logs):
            return False
        held = {log.topic_partition.partition for log in logs}
        if self.cluster.exists:
            image = self.cluster.image()
            item = image.topics.get(topic)
            if item is not None:
                return held >= set(image.partitions_of(item.facts["topicId"]))
        return held == set(range(len(held)))

    def _assigned(self, member: Member) -> Iterator[tuple[str, int]]:
        for each in member.assignment:
            topic = each.topic
            if topic is None:
                assert each.topic_id is not None
                topic = self.topic_name(each.topic_id) or each.topic_id
            for partition in each.partitions:
                yield topic, partition

    def _row(
        self,
        group: Group,
        topic: str,
        partition: int,
        member: Member | None,
    ) -> GroupRow:
        end = self.ends.end_of(topic, partition)
        return GroupRow(topic, partition, group.offsets.get((topic, partition)), end, member)

    def _name_by_folder(self, topic_id: str) -> str | None:
        """Return the topic of the folders with an id; each folder is read once."""
        with self._lock:
            logs = self._source.partitions()
            if logs is not self._seen:
                self._ids = {
                    log: self._ids[log] if log in self._ids else _topic_id(log)
                    for log in logs.values()
                }
                self._seen = logs
            found = [log for log, known in self._ids.items() if known == topic_id]
        return found[0].topic_partition.topic if found else None


def _topic_id(log: PartitionLog) -> str | None:
    """Return the topic id of a log; None if it cannot be read or was deleted."""
    view = log.view_or_none()
    return None if view is None else view.topic_id
