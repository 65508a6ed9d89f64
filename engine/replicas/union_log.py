"""A partition of which several brokers' disks have a copy, read as their union."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from engine.budgets import Budgets
from engine.log.held_up import unless_held_up
from engine.log.joined_logs import JoinedLog
from engine.log.partition_log import MAX_AGE, Shared, ViewLag
from engine.log.segment.damage import DamageKind
from engine.log.view.log_contents import LogContext
from engine.log.view.log_view import LogView
from engine.replicas.choice import ReplicaChoice, choose
from engine.replicas.copies import Replica
from engine.replicas.union_view import UnionCopies, UnionSegments, UnionView
from engine.units import MAX_INT32


class UnionLog(JoinedLog):
    """The union of the copies of a partition; safe from several threads.

    Its root, folder and checkpoints are those of the leading copy once a view was asked for, before that of the
    first one.

    Args:
        name: name of the partition.
        replicas: the copies, at least two.
        shared: state shared with the other partitions of the source.
        budgets: limits for reads.
        frozen: look once.

    Attributes:
        replicas: the copies.
    """

    __slots__ = ("_choice", "_seen", "replicas")

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        *,
        shared: Shared,
        budgets: Budgets,
        frozen: bool,
    ) -> None:
        first = replicas[0].log
        super().__init__(
            first.root,
            first.folder,
            name=name,
            topic_partition=first.topic_partition,
            checkpoints=first.checkpoints,
            budgets=budgets,
            frozen=frozen,
            shared=shared,
            is_live=lambda: any(replica.log.is_live() for replica in replicas),
        )
        self.replicas = tuple(replicas)
        self._seen: tuple[LogView | None, ...] = ()
        self._choice: tuple[tuple[Replica, ...], ReplicaChoice] | None = None

    def is_live(self) -> bool:
        return self._has_broker()

    def lag(self) -> ViewLag | None:
        if self._choice is None:
            return None
        replicas, choice = self._choice
        return replicas[choice.leading].log.lag()

    @property
    def context(self) -> LogContext:
        if self._choice is None:
            self.view()
        return super().context

    @property
    def nodes(self) -> tuple[int, ...]:
        ids = (replica.node_id for replica in self.replicas)
        return tuple(dict.fromkeys(each for each in ids if each is not None))

    @property
    def leading_node(self) -> int:
        if self._choice is not None:
            replicas, choice = self._choice
            leading = replicas[choice.leading].node_id
            if leading is not None:
                return leading
        return self.nodes[0]

    def described(self) -> dict[str, Any]:
        self.view()
        assert self._choice is not None
        replicas, choice = self._choice
        return {
            "chosen": self.leading_node,
            "reason": choice.reason,
            "copies": [
                self._copy_facts(at, replica, choice) for at, replica in enumerate(replicas)
            ],
        }

    def _copy_facts(self, at: int, replica: Replica, choice: ReplicaChoice) -> dict[str, Any]:
        facts = replica.facts()
        tail = choice.tail(at, facts.end)
        return {
            "name": replica.log.name,
            "node": replica.node_id,
            "logDir": facts.place,
            "firstOffset": facts.first,
            "logEndOffset": facts.end,
            "lastEpoch": facts.lineage.last_epoch,
            "highWatermark": facts.high_watermark,
            "deletedTo": facts.deleted_to,
            "agreesTo": choice.agreed[at],
            "lostTail": None if tail is None else list(tail),
            "stranger": choice.strangers.get(at),
        }

    def view(self, max_age: float = MAX_AGE) -> LogView:
        view = self._view
        if view is not None and (self.frozen or monotonic() - self._checked < max_age):
            return view
        with unless_held_up(self._lock, must_wait=view is None) as is_mine:
            if not is_mine and view is not None:
                return view
            view = self._view
            if view is not None and (self.frozen or monotonic() - self._checked < max_age):
                return view
            now = monotonic()
            seen, error = self._views(max_age)
            if all(each is None for each in seen):
                assert error is not None
                raise error
            if view is None or seen != self._seen:
                view = self._joined(seen, view)
                self._seen = seen
            self._view = self._whole = view
            self._checked = now
            return view

    def _views(self, max_age: float) -> tuple[tuple[LogView | None, ...], OSError | None]:
        views: list[LogView | None] = []
        failed: OSError | None = None
        for replica in self.replicas:
            try:
                views.append(replica.log.view(max_age))
            except OSError as error:
                views.append(None)
                failed = error
                self.problems.add_error(DamageKind.UNREADABLE, replica.log.folder, error)
        return tuple(views), failed

    def _joined(self, seen: Sequence[LogView | None], before: LogView | None) -> UnionView:
        pairs = [
            (replica, view)
            for replica, view in zip(self.replicas, seen, strict=True)
            if view is not None
        ]
        facts = [replica.facts(view) for replica, view in pairs]
        choice = choose(facts)
        self._take(tuple(replica for replica, _ in pairs), choice)
        cleaned = [
            replica.log.checkpoints.cleaner_offset(self.topic_partition) for replica, _ in pairs
        ]
        copies = UnionCopies(
            [view for _, view in pairs],
            [fact.name for fact in facts],
            choice,
            max((each for each in cleaned if each is not None), default=0),
        )
        for at, fact in enumerate(facts):
            tail = choice.tail(at, fact.end)
            if at in choice.strangers:
                self.problems.add("stranger", fact.place, choice.strangers[at])
            elif tail is not None:
                reason = (
                    f"offsets {tail[0]} to {tail[1] - 1} of {fact.name} lost to those of the newest"
                    f" leader, and are left out: {self.name}@{fact.node_id} has them. {choice.reason}"
                )
                self.problems.add("losing_tail", fact.place, reason)
        known = before.union.still_right() if isinstance(before, UnionView) else {}
        union = UnionSegments(copies, self._shared.open_segments, self.problems, known)
        leader = copies.leader
        is_rewritten = before is not None and (
            not isinstance(before, UnionView)
            or before.union.copies.leader.log is not leader.log
            or before.union.copies.leader.rewrites != leader.rewrites
        )
        view = UnionView(
            super().context,
            leader.listing._replace(base_offsets=union.bases),
            {},
            None,
            log_start_offset=copies.start,
            log_end_offset=leader.log_end_offset,
            generation=0 if before is None else before.generation + 1,
            rewrites=0 if before is None else before.rewrites + is_rewritten,
        )
        view.union = union
        if leader.ended is not None:
            view.ended, view.known_transactions = leader.ended, leader.known_transactions
        return view

    def _take(self, replicas: tuple[Replica, ...], choice: ReplicaChoice) -> None:
        """Have the root, the folder and the checkpoints of the leading copy from now on."""
        log = replicas[choice.leading].log
        if log.root is not self.root or log.folder != self.folder:
            self._context = None
        self.root, self.folder, self.checkpoints = log.root, log.folder, log.checkpoints
        self._choice = replicas, choice

    def forget(self) -> None:
        super().forget()
        if not self.frozen:
            self._seen = ()
            for replica in self.replicas:
                replica.log.forget()

    def freeze(self, most_files: int = MAX_INT32) -> int:
        used = 0
        for replica in self.replicas:
            used += replica.log.freeze(max(most_files - used, 0))
        return used
