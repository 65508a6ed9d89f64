"""A partition of a modelled cluster: its replicas, their elections and truncations, and what clients were told."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

from engine.units import EpochEntry

_offset = attrgetter("offset")


class Entry(NamedTuple):
    """A batch in a log: offset of its one record, leader epoch, bytes, key, value; None for a marker's."""

    offset: int
    epoch: int
    data: bytes
    key: bytes | None
    value: bytes | None
    is_marker: bool = False


@dataclass
class Replica:
    """A replica's log.

    Attributes:
        entries: its batches; compaction leaves gaps.
        epochs: its leader epochs.
        end, start: log end and log start.
        high_watermark: as the replica knows it.
        checkpointed: the one in the checkpoint.
        started: the log start in the checkpoint.
        flushed: its recovery point.
        rolls: base offsets of its segments.
        cleaned: up to where it was compacted.
    """

    entries: list[Entry] = field(default_factory=list)
    epochs: list[EpochEntry] = field(default_factory=list)
    end: int = 0
    start: int = 0
    high_watermark: int = 0
    checkpointed: int = 0
    started: int = 0
    flushed: int = 0
    rolls: list[int] = field(default_factory=lambda: [0])
    cleaned: int = 0

    def copied(self) -> Replica:
        """Return a copy that does not change with it."""
        return replace(
            self, entries=list(self.entries), epochs=list(self.epochs), rolls=list(self.rolls)
        )

    def since(self, offset: int) -> Sequence[Entry]:
        """Return the entries from an offset on."""
        return self.entries[bisect_left(self.entries, offset, key=_offset) :]

    def lead(self, epoch: int, offset: int | None = None) -> None:
        """Note that a leader epoch begins at an offset, or at the log end."""
        offset = self.end if offset is None else offset
        if not self.epochs or self.epochs[-1].epoch < epoch:
            self.epochs = [each for each in self.epochs if each.start_offset < offset]
            self.epochs.append(EpochEntry(epoch, offset))

    def append(self, entry: Entry) -> None:
        """Append an entry at or past the log end."""
        self.lead(entry.epoch, entry.offset)
        if len(self.entries) % 16 == 15:
            self.rolls.append(self.end)
        self.entries.append(entry)
        self.end = entry.offset + 1

    def truncate(self, end: int) -> None:
        """Drop the entries from an offset on."""
        del self.entries[bisect_left(self.entries, end, key=_offset) :]
        self.epochs = [each for each in self.epochs if each.start_offset < end]
        self.end = min(self.end, end)
        self.rolls = [each for each in self.rolls if each < self.end or not each]
        self.high_watermark = min(self.high_watermark, end)
        self.flushed = min(self.flushed, end)
        self.cleaned = min(self.cleaned, end)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Return the largest leader epoch that is not above another one, and where it ends; (-1, 0) without one."""
        found = max((each.epoch for each in self.epochs if each.epoch <= epoch), default=-1)
        later = (each.start_offset for each in self.epochs if each.epoch > epoch)
        return found, min(later, default=self.end) if found >= 0 else 0

    def clean(self, chance: float, chooser: random.Random) -> None:
        """Compact the log below its high watermark, but for the active segment."""
        limit = min(self.high_watermark, self.rolls[-1])
        newest = {each.key: each.offset for each in self.entries if each.offset < limit}
        kept = []
        for each in self.entries:
            may_go = each.offset < limit and each.key is not None
            is_old = may_go and newest[each.key] > each.offset
            is_tombstone = may_go and each.value is None and chooser.random() < chance
            if not is_old and not is_tombstone:
                kept.append(each)
        if len(kept) < len(self.entries):
            self.cleaned = limit
        self.entries = kept

    def drop_segments(self) -> None:
        """Delete the segments below the log start, as retention does after DeleteRecords."""
        while len(self.rolls) > 1 and self.rolls[1] <= self.start:
            del self.rolls[0]
        self.entries = [each for each in self.entries if each.offset >= self.rolls[0]]


class Partition:
    """A partition and its replicas.

    Attributes:
        topic_id: id of its topic.
        replicas: by node.
        removed: replicas that a reassignment removed, whose folders are still there.
        acknowledged: entries that acks=all has acknowledged, by offset; without what an unclean election lost.
        overwritten: acknowledged entries that an unclean election lost.
    """

    def __init__(self, topic_id: str, nodes: Sequence[int], chooser: random.Random) -> None:
        self.topic_id = topic_id
        self.replicas = {node: Replica() for node in nodes}
        self.removed: dict[int, Replica] = {}
        self.adding: int | None = None
        self.leader = chooser.choice(nodes)
        self.epoch = 0
        self.log.lead(0)
        self.isr = set(nodes)
        self.acknowledged: dict[int, Entry] = {}
        self.overwritten: dict[int, Entry] = {}

    @property
    def log(self) -> Replica:
        """The leader's log."""
        return self.replicas[self.leader]

    def fetch(self, node: int, most: int) -> None:
        """Let a follower truncate where it diverges, and take some entries of the leader."""
        if node == self.leader or node not in self.replicas:
            return
        own, leader = self.replicas[node], self.log
        while own.epochs:
            latest = own.epochs[-1].epoch
            epoch, end = leader.end_of(latest)
            if epoch != latest:
                end = min(end, own.end_of(epoch)[1])
            own.truncate(min(own.end, end))
            if epoch == latest:
                break
        if own.end < leader.start:
            own.truncate(0)
            own.end, own.rolls = leader.start, [leader.start]
        for entry in leader.since(own.end)[:most]:
            own.append(entry)
        own.start = max(own.start, leader.start)
        self.advance()
        own.high_watermark = min(leader.high_watermark, own.end)
        if own.end >= leader.high_watermark:
            self.isr.add(node)

    def settle(self) -> None:
        """Replicate all to the in-sync replicas."""
        for node in tuple(self.isr):
            self.fetch(node, 1000)
        self.advance()

    def elect(self, node: int) -> None:
        """Make another node the leader; an unclean election if it is not in sync."""
        if node not in self.isr:
            kept = {entry.data for entry in self.replicas[node].entries}
            lost = {o: each for o, each in self.acknowledged.items() if each.data not in kept}
            self.overwritten |= lost
            for offset in lost:
                self.acknowledged.pop(offset, None)
            self.isr = {node}
        self.leader = node
        self.epoch += 1
        self.log.lead(self.epoch)
        self.advance()

    def advance(self) -> None:
        """Raise the high watermark as far as all in-sync replicas are."""
        before = self.log.high_watermark
        at = max(before, min(self.replicas[node].end for node in self.isr))
        self.log.high_watermark = at
        for entry in self.log.since(min(before, self.acked_to)):
            if entry.offset >= at:
                break
            self.acknowledged.setdefault(entry.offset, entry)

    @property
    def acked_to(self) -> int:
        """One past the last acknowledged offset."""
        return max(self.acknowledged, default=-1) + 1
