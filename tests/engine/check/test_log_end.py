"""The end of a log is the highest that anything proves, not what its records files happen to hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.check.rules import Severity
from tests import fixtures_data
from tests.engine.check.logs import bad, found
from tests.engine.check.side_logs import files, log_dir, of, rules, write_checkpoint

RULE = "log-end-short"


def last_offset(folder: Path) -> int:
    return int((folder / "recovery-point-offset-checkpoint").read_text().split()[-1])


def test_a_torn_last_batch_below_the_recovery_point_is_an_error_with_its_offsets(
    tmp_path: Path,
) -> None:
    folder = log_dir(tmp_path / "dir", clean=False)
    end = last_offset(folder)
    log = files(folder, ".log")[-1]
    log.write_bytes(log.read_bytes()[:-5])
    finding = of(folder, RULE)
    assert finding.severity is Severity.ERROR
    assert (finding.first_offset, finding.next_offset) == (end - 4, end)
    assert finding.sentence == (
        f"offsets {end - 4} to {end - 1} (4) are gone: the records files end at offset {end - 4}, and"
        f" the recovery point is {end}, the high watermark is {end},"
        f" the newest producer snapshot is of offset {end}"
    )


@pytest.mark.parametrize("clean", [True, False])
def test_the_last_records_file_gone_is_an_error_with_its_offsets(
    tmp_path: Path, clean: bool
) -> None:
    folder = log_dir(tmp_path / "dir", clean=clean)
    log = files(folder, ".log")[-1]
    base, end = int(log.stem), last_offset(folder)
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    finding = of(folder, RULE)
    assert (finding.severity, finding.first_offset, finding.next_offset) == ("error", base, end)


def test_all_records_files_gone_is_an_error_from_the_first_offset_on(tmp_path: Path) -> None:
    folder = fixtures_data.copy_of("current", tmp_path, ["retained-0"])
    for path in (folder / "retained-0").glob("*.log"):
        path.unlink()
    (finding,) = [each for each in found(folder) if each.rule == RULE]
    assert finding.severity is Severity.ERROR
    assert (finding.first_offset, finding.next_offset) == (1200, 1400), "retention took the others"
    assert "there is no records file" in finding.sentence


@pytest.mark.parametrize("name", ["recovery-point", "replication", "cleaner"])
def test_a_checkpoint_behind_an_end_that_the_others_agree_on_is_the_one_that_is_wrong(
    tmp_path: Path, name: str
) -> None:
    folder = log_dir(tmp_path / "dir")
    assert not bad(found(folder))
    write_checkpoint(folder, name, "side 0 99999")
    assert RULE not in rules(folder)
    assert rules(folder), "it is found as the checkpoint's fault"


@pytest.mark.parametrize("name", ["recovery-point", "replication", "cleaner"])
def test_after_a_crash_each_checkpoint_proves_the_end_on_its_own(tmp_path: Path, name: str) -> None:
    folder = log_dir(tmp_path / "dir", clean=False)
    write_checkpoint(folder, name, "side 0 900")
    assert of(folder, RULE).next_offset == 900


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_no_log_of_a_broker_is_short(kind: str) -> None:
    assert not [each for each in found(fixtures_data.log_dir(kind)) if each.rule == RULE]
