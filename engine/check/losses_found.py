"""The losses of a partition, out of the check's findings and holes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.check.rules.finding import Finding
from engine.log.view.log_view import LogView
from engine.verdict.all_losses import MOST_LOSSES
from engine.verdict.holes import Hole
from engine.verdict.log_losses import losses_of
from engine.verdict.loss import Loss, LossKind
from engine.verdict.time_span import with_times

_MOST_TIMED = 1000
"""Losses whose time span is looked up."""


class LossesFound:
    """Collects the losses of a partition.

    Args:
        view: the log.
    """

    def __init__(self, view: LogView) -> None:
        self._view = view
        self._losses: list[Loss] = []

    def add(self, finding: Finding) -> None:
        """Take a finding, if it is about lost offsets between others."""
        if finding.rule != "gap-loss" or len(self._losses) >= MOST_LOSSES:
            return
        self._losses.append(
            Loss(
                partition=self._view.name,
                kind=LossKind.GAP,
                first_offset=finding.first_offset,
                next_offset=finding.next_offset,
                file=finding.file,
                position=finding.position or 0,
                reason=finding.sentence,
                is_certain=bool(finding.facts.get("certain")),
            )
        )

    def all(self, holes: Iterable[Hole], *, is_compacted: bool) -> list[Loss]:
        """Return the losses by offset, with those of damaged bytes and with time spans.

        Args:
            holes: bytes that are no good batches.
            is_compacted: whether compaction may have left fewer records in the bytes than offsets.
        """
        known = losses_of(self._view)
        ends = [loss for loss in (known.start, known.end) if loss is not None]
        found = ends + [
            replace(loss, is_certain=loss.is_certain and not is_compacted) for loss in self._losses
        ]
        found += [hole.loss(is_compacted=is_compacted) for hole in holes if hole.may_be_lost]
        found.sort(key=lambda loss: (loss.first_offset or 0, loss.next_offset or 0))
        return [
            with_times(self._view, known.placed(loss)) if place < _MOST_TIMED else loss
            for place, loss in enumerate(found[:MOST_LOSSES])
        ]
