"""The union of the copies of a partition at one moment."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from engine.errors import KafkaStorageError
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.open_segments import OpenSegments, SegmentFiles
from engine.log.segment.problems import Problems
from engine.log.segment.scan import BatchRun
from engine.log.tiered.root import TieredRoot
from engine.log.view.log_view import LogView
from engine.replicas.choice import ReplicaChoice
from engine.replicas.proof import Filler, LackedRange, found_in
from engine.replicas.union_files import UnionFiles
from engine.topics.topic_names import CLUSTER_METADATA
from engine.units import MAX_INT64, Offset


class UnionCopies(NamedTuple):
    """The copies of a partition, and what was chosen.

    Attributes:
        views: views of the copies.
        names: the copies in words.
        choice: which one leads.
        cleaned: the largest offset up to which a copy is compacted; 0 if none is.
    """

    views: Sequence[LogView]
    names: Sequence[str]
    choice: ReplicaChoice
    cleaned: Offset

    @property
    def leader(self) -> LogView:
        """View of the leading copy."""
        return self.views[self.choice.leading]

    @property
    def ranked(self) -> list[tuple[int, LogView, Offset]]:
        """Index, view and agreed end of each copy that is no stranger: the leading one first, then the longest."""
        agreed, best = self.choice.agreed, self.choice.leading
        ours = [(at, self.views[at], end) for at, end in enumerate(agreed) if end is not None]
        return sorted(ours, key=lambda each: (each[0] != best, -each[2], each[0]))

    @property
    def start(self) -> Offset:
        """The log start of the union."""
        leader = self.leader
        if leader.partition.topic == CLUSTER_METADATA:
            return leader.log_start_offset
        return min(self.choice.start, leader.log_end_offset)


def segments_of(copies: UnionCopies) -> dict[Offset, tuple[LogSegment, Offset]]:
    """Return the segments that the union is made of, by base offset, ascending, with the agreed end of their copies.

    They are those of the leading copy; before its first one, and where it lost one, those of others.
    """
    leader = copies.leader
    end = leader.log_end_offset
    found = {base: (leader, at, end) for at, base in enumerate(leader.base_offsets)}
    bases, start = leader.base_offsets, copies.start
    first = bases[0] if bases else leader.log_end_offset
    ends: dict[int, Offset] = {}
    for _, view, agreed in copies.ranked[1:]:
        others = view.base_offsets
        if others == bases:
            continue
        lowest = min(found, default=first)
        for at, base in enumerate(others):
            if base in found or base >= agreed:
                continue
            following = others[at + 1] if at + 1 < len(others) else MAX_INT64
            if base < first:
                if base < lowest and following > start:
                    found[base] = view, at, agreed
            elif base >= copies.cleaned and _is_lost(leader, base, ends):
                found[base] = view, at, agreed
    return {
        base: (view.segment_at(at), agreed) for base, (view, at, agreed) in sorted(found.items())
    }


def _is_lost(leader: LogView, base: Offset, ends: dict[int, Offset]) -> bool:
    """Return whether the leading copy's segment before a base offset ends at or below it."""
    place = bisect_right(leader.base_offsets, base) - 1
    if place not in ends:
        ends[place] = leader.segment_at(place).next_offset
    return ends[place] <= base < leader.log_end_offset


class UnionSegments:
    """The segments of a union, each with the files that it is read from.

    Args:
        copies: the copies.
        open_segments, problems: of the partition.
        known: files of the union before this one that are still right, see `still_right`.
    """

    def __init__(
        self,
        copies: UnionCopies,
        open_segments: OpenSegments,
        problems: Problems,
        known: Mapping[tuple[Offset, Offset, int], UnionFiles],
    ) -> None:
        self.copies = copies
        self.whole = segments_of(copies)
        self.bases = tuple(self.whole)
        self._open_segments = open_segments
        self._problems = problems
        self._known = known
        self._files: dict[Offset, UnionFiles] = {}
        self._active: tuple[LogSegment | None] | None = None

    def files(self, base: Offset) -> UnionFiles:
        """Return the files of a segment."""
        found = self._files.get(base)
        if found is None:
            place = bisect_left(self.bases, base)
            end = self.copies.leader.log_end_offset
            stop = self.bases[place + 1] if place + 1 < len(self.bases) else end
            whole, agreed = self.whole[base]
            found = self._known.get((base, stop, id(whole.files)))
            if found is None or found.whole.files is not whole.files:
                found = UnionFiles(
                    whole,
                    base,
                    max(stop, base),
                    agreed,
                    fill=self._fill,
                    open_segments=self._open_segments,
                    problems=self._problems,
                )
            self._files[base] = found
        return found

    def led_at(self, offset: Offset) -> LogSegment | None:
        """Return the leading copy's own segment of an offset, if what the union has of it is not known yet.

        A good batch there that ends before the next segment is that of the union: others only fill holes.
        """
        base = self.bases[max(bisect_right(self.bases, offset) - 1, 0)]
        known, (segment, agreed) = self._files.get(base), self.whole[base]
        is_read = known is not None and known.is_proven
        if is_read or agreed < self.copies.leader.log_end_offset or segment.reaches_beyond:
            return None
        return segment

    def still_right(self) -> dict[tuple[Offset, Offset, int], UnionFiles]:
        """Return the files that are right as long as their own segment does not change: those of whole segments."""
        found: dict[tuple[Offset, Offset, int], UnionFiles] = {}
        for base, files in self._files.items():
            place = bisect_left(self.bases, base)
            if files.is_proven_whole and place + 1 < len(self.bases):
                found[base, self.bases[place + 1], id(files.whole.files)] = files
        return found

    def active(self) -> LogSegment | None:
        """Return the last segment: the leading copy's as it is, unless it lacks batches that others have."""
        if self._active is None:
            self._active = (self._make_active(),)
        return self._active[0]

    def _make_active(self) -> LogSegment | None:
        leader = self.copies.leader
        known = leader.active_segment
        if known is None or leader.live or self.bases[-1] != known.base_offset:
            return known
        files = self.files(known.base_offset)
        if not files.is_joined:
            return known
        end = files.good_end
        return LogSegment(files, end, end, budgets=leader.log.budgets)

    def _fill(self, hole: LackedRange) -> list[Filler]:
        copies = self.copies
        if not hole.is_damaged and hole.first < copies.cleaned:
            return []
        found = found_in((hole.first, hole.next), copies.ranked, copies.leader.leader_epochs)
        for each in found:
            reason = (
                f"offsets {each.first} to {each.next - 1} are missing or damaged in"
                f" {copies.names[copies.choice.leading]}, and taken from {copies.names[each.copy]}"
            )
            self._problems.add("filled", each.segment.path, reason, position=each.start)
        return found


class UnionView(LogView):
    """The union of the copies of a partition at one moment.

    A segment is proven when it is first read; a look-up of one offset reads no more than its batch, if that is good.

    Attributes:
        union: its segments.
    """

    __slots__ = ("union",)
    union: UnionSegments

    @property
    def _active(self) -> LogSegment | None:
        return self.union.active()

    def files_of(self, base_offset: Offset) -> SegmentFiles:
        return self.union.files(base_offset)

    def batch(
        self, offset: Offset, before_large: Callable[[int], object] | None = None
    ) -> tuple[LogSegment, BatchRun] | None:
        if self.log_start_offset <= offset < self.log_end_offset:
            segment = self.union.led_at(offset)
            if segment is not None:
                run = None
                with suppress(KafkaStorageError, OSError):
                    run = segment.batch(offset, before_large)
                if run is not None and run.next_offset <= self.next_base(segment):
                    return segment, run
        return super().batch(offset, before_large)

    def _sound_segment(self, offset: Offset) -> LogSegment:
        return self.union.led_at(offset) or super()._sound_segment(offset)

    @property
    def size(self) -> int:
        return sum(segment.size for segment, _ in self.union.whole.values())

    @property
    def tiers(self) -> tuple[Offset, Offset | None]:
        copies = self.union.copies
        local = [view for view in copies.views if not isinstance(view.log.root, TieredRoot)]
        ends = [
            view.log_end_offset
            for view in copies.views
            if view not in local and view.log_end_offset > view.log_start_offset
        ]
        starts = [view.base_offsets[0] for view in local if view.base_offsets]
        start = max(self.log_start_offset, min(starts, default=self.log_end_offset))
        return start, max(ends, default=None)

    @property
    def copy_folders(self) -> tuple[str, ...]:
        logs = (view.log for view in self.union.copies.views)
        return tuple(log.root.display(log.folder) for log in logs)
