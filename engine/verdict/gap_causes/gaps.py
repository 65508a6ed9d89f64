"""Classify missing offsets between good batches as compaction, retention or loss, with a certainty.

Control records and records of aborted transactions have offsets like all others and are on disk, so they leave no
gap; if they are missing, compaction removed them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.topics.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from engine.units import Offset, Position
from engine.verdict.gap_causes.producer_sequences import SequenceBreak
from engine.verdict.gap_causes.repeated_keys import Repeated


class OffsetGap(NamedTuple):
    """Missing offsets [first_offset, next_offset). `position` is that of the next batch."""

    first_offset: Offset
    next_offset: Offset
    position: Position


COMPACTED_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "_schemas"})
"""Topics that are always compacted."""


@dataclass(slots=True)
class Evidence:
    """Facts about a partition that can explain gaps.

    Attributes:
        topic: the topic's name.
        log_start_offset: the first offset that is served.
        policy: the topic's cleanup.policy, None if unknown.
        cleaned_to: end of the compacted part in the log dir's cleaner-offset-checkpoint.
        marked_to: one past the last batch with signs of compaction: emptied, with fewer records than offsets, or with
            a delete horizon; -1 without one.
        keyless: offset of the first data record without a key, which compaction would have removed.
        breaks: places where producers' sequences are interrupted.
        orphans: base offsets of indexes and .swap files without a records file.
        find_indexed: returns what an index states of batches in a gap, in words; None without a log to look into.
        find_keyless: looks for `keyless` when it is needed; None if it is known.
        repeated: the first repeated key, which compaction would not have left below a gap.
        has_unique_keys: whether there are many gaps, and no key is repeated below the last of them.
    """

    topic: str
    log_start_offset: Offset
    policy: frozenset[str] | None = None
    cleaned_to: Offset | None = None
    marked_to: Offset = -1
    keyless: Offset | None = None
    breaks: Sequence[SequenceBreak] = field(default_factory=tuple)
    orphans: Sequence[Offset] = ()
    find_indexed: Callable[[OffsetGap], str | None] | None = None
    find_keyless: Callable[[], Offset | None] | None = None
    repeated: Repeated | None = None
    has_unique_keys: bool = False

    def first_keyless(self) -> Offset | None:
        """Return `keyless`, and look for it if nobody has yet."""
        find, self.find_keyless = self.find_keyless, None
        if find is not None:
            self.keyless = find()
        return self.keyless

    @property
    def is_compacted(self) -> bool:
        """Whether there is any sign that the log is, or was, compacted."""
        if self.marked_to >= 0 or self.cleaned_to is not None:
            return True
        if self.policy is not None:
            return "compact" in self.policy
        return self.topic in COMPACTED_TOPICS


class Verdict(NamedTuple):
    """Cause of missing offsets.

    Attributes:
        rule: gap-compaction, gap-retention, gap-loss or gap-unexplained.
        is_certain: whether no other cause is possible.
        why: the reason, to follow a semicolon.
    """

    rule: str
    is_certain: bool
    why: str

    @property
    def is_loss(self) -> bool:
        """Whether something shows that records are lost; a gap that nothing explains is not proven to be a loss."""
        return self.rule == "gap-loss"

    @property
    def is_normal(self) -> bool:
        """Whether compaction or retention explains the gap."""
        return self.rule in ("gap-compaction", "gap-retention")

    @property
    def sentence(self) -> str:
        """The cause in words, with how sure it is."""
        is_likely = self.rule == "gap-loss" and not self.is_certain
        return f"probably lost: {self.why}" if is_likely else self.why


def classify(gap: OffsetGap, evidence: Evidence) -> Verdict:
    """Return the cause of a gap."""
    if gap.next_offset <= evidence.log_start_offset:
        return Verdict("gap-retention", True, "below the log start")
    for orphan in evidence.orphans:
        if gap.first_offset <= orphan < gap.next_offset:
            return Verdict(
                "gap-loss", True, f"segment {orphan} has an index or a .swap, but no records file"
            )
    indexed = None if evidence.find_indexed is None else evidence.find_indexed(gap)
    if indexed is not None:
        return Verdict("gap-loss", True, indexed)
    if evidence.is_compacted:
        return _compaction(gap, evidence)
    broken = _spanning(gap, evidence.breaks)
    if broken is not None:
        why = (
            f"producer {broken.producer_id} numbered records {broken.expected} to"
            f" {broken.found - 1} between offsets {broken.after} and {broken.first_offset}"
        )
        return Verdict("gap-loss", True, why)
    if evidence.policy is not None:
        if evidence.has_unique_keys and evidence.first_keyless() is None:
            why = "no key is repeated: the topic, which is not compacted now, may have been before"
            return Verdict("gap-unexplained", False, why)
        return Verdict("gap-loss", False, "the topic is not compacted")
    keyless = evidence.first_keyless()
    if keyless is not None:
        why = f"the record at offset {keyless} has no key, so the topic is not compacted"
        return Verdict("gap-loss", False, why)
    if evidence.has_unique_keys:
        return Verdict("gap-compaction", False, "no key is repeated, as in a compacted log")
    return Verdict("gap-unexplained", False, "nothing shows that the log was compacted")


def _compaction(gap: OffsetGap, evidence: Evidence) -> Verdict:
    if evidence.cleaned_to is not None and gap.next_offset <= evidence.cleaned_to:
        why = f"the log was compacted up to offset {evidence.cleaned_to}"
        return Verdict("gap-compaction", True, why)
    if evidence.marked_to > gap.first_offset:
        return Verdict("gap-compaction", True, "later batches were compacted too")
    keyless = evidence.first_keyless()
    if keyless is not None and keyless < gap.first_offset:
        why = f"compaction would not have left the record without a key at offset {keyless}"
        return Verdict("gap-loss", False, why)
    repeated = evidence.repeated
    if repeated is not None and repeated.again < gap.first_offset:
        why = (
            f"the key at offset {repeated.first} is repeated at offset {repeated.again},"
            " so compaction did not reach this offset"
        )
        return Verdict("gap-unexplained", False, why)
    return Verdict("gap-compaction", False, "the topic is compacted")


def _spanning(gap: OffsetGap, breaks: Sequence[SequenceBreak]) -> SequenceBreak | None:
    for each in breaks:
        if each.after < gap.first_offset and each.first_offset >= gap.next_offset and each.missing:
            return each
    return None


def without(gaps: Sequence[OffsetGap], late: Sequence[tuple[Offset, Offset]]) -> list[OffsetGap]:
    """Return the gaps without the offsets of batches that are out of place."""
    left = list(gaps)
    for first, following in late:
        left = [part for gap in left for part in _cut(gap, first, following)]
    return left


def _cut(gap: OffsetGap, first: Offset, following: Offset) -> list[OffsetGap]:
    if following <= gap.first_offset or first >= gap.next_offset:
        return [gap]
    parts = [
        gap._replace(next_offset=first),
        gap._replace(first_offset=following),
    ]
    return [part for part in parts if part.first_offset < part.next_offset]
