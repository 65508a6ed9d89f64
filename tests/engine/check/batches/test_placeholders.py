"""Offsets that a batch without records holds are a note; a gap beside them is still a gap."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.check.rules.rules import Severity
from engine.record.attributes import TimestampType
from engine.record.encoding.batch_encoding import encode_empty_batch
from tests.engine.check.logs import bad, found, numbered, of_rule, plain, write


def held(first: int, following: int, producer: int = -1) -> bytes:
    """A batch without records for the offsets [first, following)."""
    return bytes(
        encode_empty_batch(
            base_offset=first,
            last_offset=following - 1,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=-1 if producer < 0 else 0,
            partition_leader_epoch=0,
            timestamp_type=TimestampType.CREATE_TIME,
            timestamp=-1,
            is_transactional=False,
            is_control=False,
        )
    )


def test_gaps_that_batches_without_records_hold_are_no_loss_and_one_note(tmp_path: Path) -> None:
    batches = [plain(0), held(5, 100), plain(100), held(105, 1000), plain(1000)]
    findings = found(write(tmp_path / "t-0", {0: batches}))
    assert not [each for each in bad(findings) if "index" not in each.rule]
    (note,) = of_rule(findings, "gap-held")
    assert note.severity is Severity.NOTE
    assert note.sentence == "990 offsets are held by 2 batches without records"


@pytest.mark.parametrize(("producer", "expected"), [(-1, "gap-loss"), (7, "gap-compaction")])
def test_a_batch_that_only_holds_offsets_does_not_explain_another_gap_by_compaction(
    tmp_path: Path, producer: int, expected: str
) -> None:
    batches = [
        numbered(0, 0, producer=9),
        numbered(10, 10, producer=9),  # offsets 5 to 9, and as many numbers, are missing
        held(15, 30, producer),
        numbered(30, 15, producer=9),
    ]
    findings = found(write(tmp_path / "t-0", {0: batches}))
    (gap,) = [each for each in findings if each.first_offset == 5]
    assert gap.rule == expected
