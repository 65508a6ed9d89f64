"""What is known of a partition without reading its records, and what was found out since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from engine.log.segment.log_segment import LogSegment
from engine.log.segment.scan import CHUNK, BatchRun
from engine.log.view.log_view import LogView
from engine.units import NO_TIMESTAMP, Offset, Timestamp
from engine.verdict.log_losses import losses_of
from kafkafs.amounts import count, counted
from kafkafs.browse.work import READ_ERRORS, Job, Steps

if TYPE_CHECKING:
    from engine.check.rules.finding import Finding
    from engine.log.partition_log import PartitionLog
    from kafkafs.browse.record_pages import PageItem
    from kafkafs.tree.tree import Tree

MOST_MARKS = 1000
MOST_SEGMENTS = 20_000


class HurtRange(NamedTuple):
    """Offsets [first, next) with damage or a loss."""

    first: Offset
    next: Offset
    sentence: str


@dataclass(frozen=True, slots=True)
class GlanceFacts:
    """A partition at one moment.

    Attributes:
        start, end, size, segments: bounds, bytes of all records files, and their number; 0 if it cannot be read.
        losses: offsets that its names, indexes and checkpoints prove to be lost.
        error: why it cannot be read; "" if it can.
    """

    start: Offset = 0
    end: Offset = 0
    size: int = 0
    segments: int = 0
    losses: tuple[HurtRange, ...] = ()
    error: str = ""


@dataclass(slots=True)
class PartitionNotes:
    """A partition, and what was found in it so far.

    Attributes:
        log: the partition; None if its folder is lost.
        facts: None until it was looked at.
        met: damaged places that pages showed.
        findings: what the check found.
        check: the check that was started last; None before.
        is_checked: whether a check has ended.
    """

    name: str
    topic: str
    log: PartitionLog | None
    facts: GlanceFacts | None = None
    met: dict[tuple[object, ...], HurtRange] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    check: Job | None = None
    is_checked: bool = False

    def meet(self, items: list[PageItem]) -> None:
        """Remember the damaged places of a page."""
        for item in items:
            if item.damage is not None and len(self.met) < MOST_MARKS:
                reason = str(item.damage.get("reason", "damaged"))
                self.met.setdefault(item.key, HurtRange(*item.span, reason))

    def marks(self) -> list[HurtRange]:
        """Return the offsets that are known to be damaged or lost, by place."""
        found = [*(() if self.facts is None else self.facts.losses), *self.met.values()]
        for each in self.findings:
            if each.first_offset is not None and each.severity.value != "note":
                following = each.next_offset or each.first_offset + 1
                found.append(HurtRange(each.first_offset, following, each.text))
        return sorted(found)

    def findings_at(self, first: Offset, following: Offset) -> list[Finding]:
        """Return the findings about offsets [first, following)."""
        return [
            each
            for each in self.findings
            if each.first_offset is not None
            and each.first_offset < following
            and (each.next_offset or each.first_offset + 1) > first
        ]

    @property
    def is_under_check(self) -> bool:
        """Whether a check of it was started and has not ended."""
        return self.check is not None and not self.check.is_over

    @property
    def damage(self) -> str:
        """The damage in a few words; it says whether all bytes were looked at."""
        facts = self.facts
        if self.log is None:
            return "lost: its folder"
        if facts is None:
            return "…"
        if facts.error:
            return f"cannot be read: {facts.error}"
        words = []
        lost = sum(each.next - each.first for each in facts.losses)
        if lost:
            words.append(f"lost {counted(lost, 'offset')}")
        if self.is_under_check and not self.is_checked:
            words.append("checking")
        elif self.is_checked:
            errors = sum(each.severity.value == "error" for each in self.findings)
            warnings = sum(each.severity.value == "warning" for each in self.findings)
            words.append(f"{counted(errors, 'error')}, {counted(warnings, 'warning')}")
        else:
            words.append(f"{counted(len(self.met), 'place')} met" if self.met else "not checked")
        return "; ".join(words)

    @property
    def is_damaged(self) -> bool:
        """Whether damage is known."""
        is_bad = self.log is None or (self.facts is not None and bool(self.facts.error))
        return (
            is_bad
            or bool(self.marks())
            or any(each.severity.value == "error" for each in self.findings)
        )


def facts_of(log: PartitionLog) -> GlanceFacts:
    """Return the facts of a partition as of now."""
    try:
        view = log.view()
        losses = tuple(
            HurtRange(each.first_offset, each.next_offset or each.first_offset + 1, each.reason)
            for each in losses_of(view).cheap()
            if each.first_offset is not None
        )
        return GlanceFacts(view.log_start_offset, view.log_end_offset, view.size, len(view), losses)
    except READ_ERRORS as error:
        return GlanceFacts(error=str(error))


class SegmentFacts(NamedTuple):
    """A segment: its offsets [base, next), its bytes, and the times of its first batch and its newest record."""

    base: Offset
    next: Offset
    size: int
    first: Timestamp | None
    newest: Timestamp | None


def segments_of(log: PartitionLog, known: dict[Offset, SegmentFacts]) -> Steps[list[SegmentFacts]]:
    """Look at the segments of a partition, one a step.

    Args:
        log: the partition.
        known: earlier results, for those that did not grow since.
    """
    view, found = log.view(), []
    for place in range(min(len(view), MOST_SEGMENTS)):
        segment = view.segment_at(place)
        following = view.base_offsets[place + 1] if place + 1 < len(view) else view.log_end_offset
        before = known.get(segment.base_offset)
        if before is None or (before.next, before.size) != (following, segment.size):
            before = _segment(view, segment, following)
            yield f"looked at {count(place + 1)} of {counted(len(view), 'segment')}"
        found.append(before)
    return found


def _segment(view: LogView, segment: LogSegment, following: Offset) -> SegmentFacts:
    try:
        return SegmentFacts(
            segment.base_offset,
            following,
            segment.size,
            next(_first_times(segment), None),
            _known(segment.newest(records_only=True).timestamp),
        )
    except READ_ERRORS:
        return SegmentFacts(segment.base_offset, following, 0, None, None)


def _first_times(segment: LogSegment) -> Iterator[Timestamp]:
    """Yield the base timestamp of the first good batch, if the first bytes hold one."""
    for item in islice(segment.scan(0, min(segment.end, CHUNK)), 2):
        if isinstance(item, BatchRun):
            timestamp = _known(int(item.table["base_timestamp"][0]))
            if timestamp is not None:
                yield timestamp


def _known(timestamp: Timestamp) -> Timestamp | None:
    return None if timestamp == NO_TIMESTAMP else timestamp


def partitions_of(tree: Tree) -> list[PartitionNotes]:
    """Return the partitions of a source by name, and those whose folders are lost.

    A folder that a broker set aside, and the second copy of a partition, count as topics of their own.
    """
    from engine.verdict.source_losses import lost_partitions

    found = []
    for name, log in tree.source.partitions().items():
        is_proper = name == str(log.topic_partition) or not log.folder
        found.append(PartitionNotes(name, log.topic_partition.topic if is_proper else name, log))
    try:
        lost = lost_partitions(tree.source)
    except READ_ERRORS:
        lost = []
    found += [PartitionNotes(each.name, each.name.rpartition("-")[0], None) for each in lost]
    return sorted(found, key=lambda each: (each.topic, _number(each), each.name))


def _number(notes: PartitionNotes) -> int:
    number = notes.name.rpartition("-")[2]
    return int(number) if number.isdecimal() and len(number) < 12 else -1


def check_each(tree: Tree, parts: Sequence[PartitionNotes]) -> Steps[None]:
    """Check partitions one after the other; each keeps its findings."""
    for notes in parts:
        notes.findings = yield from check_of(tree, notes)
        notes.is_checked = True


def check_of(tree: Tree, notes: PartitionNotes) -> Steps[list[Finding]]:
    """Check a partition as `kafkafs check` does; every byte is read."""
    # Imported here: most who look around check nothing.
    from engine.check.log_dir_check import CheckOptions, CheckProgress, SourceCheck
    from engine.check.rules.finding import Finding
    from engine.workers import Workers
    from kafkafs.amounts import size

    assert notes.log is not None
    found, read = [], 0
    with Workers(1, "check") as workers:
        for event in SourceCheck(tree.source, CheckOptions()).partition(notes.log, workers):
            if isinstance(event, CheckProgress):
                read += event.size
                yield f"checking {notes.name}: {size(read)} {event.file}"
            elif isinstance(event, Finding):
                found.append(event)
    return found
