"""What a start would do to damage: where records would go or no broker starts, check says so, as plan does."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_plan import LogPlan
from engine.plan.start_plan import StartPlan
from tests.engine.check.files.side_logs import files, log_dir, write_checkpoint
from tests.engine.check.logs import found

DROPS = "a broker that starts here drops the rest of the log, from offset"
DOES_NOT_START = "a broker does not start on such a log"
MIDDLE, LAST = 1, -1


def planned(folder: Path) -> LogPlan:
    with StartPlan([str(folder)]) as plan:
        ((_, log),) = plan.logs()
        return log


def damaged(folder: Path, place: int, tail: bytes, *, clean: bool, point: int = 794) -> Path:
    """A log of four segments, the recovery point somewhere, bytes behind a segment's last batch."""
    made = log_dir(folder, clean=clean)
    write_checkpoint(made, "recovery-point", f"side 0 {point}")
    log = files(made, ".log")[place]
    log.write_bytes(log.read_bytes() + tail)
    return made


def of_tail(folder: Path) -> Finding:
    (finding,) = [each for each in found(folder) if each.rule in ("zero-tail", "torn-tail")]
    return finding


@pytest.mark.parametrize(
    ("clean", "place", "size", "point"),
    [
        *product([False], [MIDDLE, LAST], [17, 18, 600], [0, 400, 794]),
        *product([True], [MIDDLE, LAST], [17, 18, 600], [794]),
    ],
)
def test_zeros_are_as_grave_as_what_a_start_makes_of_them(
    tmp_path: Path, clean: bool, place: int, size: int, point: int
) -> None:
    folder = damaged(tmp_path / "dir", place, bytes(size), clean=clean, point=point)
    finding, plan = of_tail(folder), planned(folder)
    drops = plan.losses.records > 0
    stops = plan.outcome is Outcome.BROKER_STOPS
    assert (DROPS in finding.sentence) is drops
    assert (DOES_NOT_START in finding.sentence) is stops
    harmless = place == LAST and not clean
    assert finding.severity is (Severity.NOTE if harmless else Severity.ERROR)
    if drops:
        assert finding.sentence.endswith(f"{DROPS} {plan.log_end} to offset 793")
        assert finding.advice == (
            "Run `kafkafs rebuild` before a broker starts here: it keeps the good batches after the damage."
        )
    if stops:
        assert finding.advice.startswith("Delete .kafka_cleanshutdown before a broker starts")


def test_without_the_marker_a_broker_starts_on_zeros_behind_the_last_batch(tmp_path: Path) -> None:
    folder = damaged(tmp_path / "dir", LAST, bytes(600), clean=True)
    assert planned(folder).outcome is Outcome.BROKER_STOPS
    (folder / ".kafka_cleanshutdown").unlink()
    plan = planned(folder)
    assert (plan.outcome, plan.losses.records, plan.log_end) == (Outcome.LOADS, 0, 794)
    assert of_tail(folder).severity is Severity.NOTE


def test_zeros_in_a_middle_segment_of_a_folder_on_its_own_are_an_error(tmp_path: Path) -> None:
    folder = damaged(tmp_path / "dir", MIDDLE, bytes(600), clean=False)
    alone = tmp_path / "alone" / "side-0"
    (folder / "side-0").rename(alone.parent.mkdir() or alone)
    finding = of_tail(alone)
    assert finding.severity is Severity.ERROR
    assert finding.sentence.endswith(
        "a broker that recovers this segment, which is not the last one, drops everything after it"
    )


@pytest.mark.parametrize("point", [0, 794])
def test_a_wrong_checksum_in_a_segment_that_is_recovered_ends_the_log_there(
    tmp_path: Path, point: int
) -> None:
    folder = log_dir(tmp_path / "dir", clean=False)
    write_checkpoint(folder, "recovery-point", f"side 0 {point}")
    log = files(folder, ".log")[MIDDLE]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 4
    log.write_bytes(data)
    (finding,) = [each for each in found(folder) if each.rule == "batch-checksum"]
    plan = planned(folder)
    assert (DROPS in finding.sentence) is (plan.losses.records > 0) is (point == 0)
    if point == 0:
        assert finding.sentence.endswith(f"{DROPS} {plan.log_end} to offset 793")
