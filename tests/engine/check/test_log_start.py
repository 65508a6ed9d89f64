"""The first segments of a log: gone without a trace of deletion is a finding, and retention's work is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from tests import fixtures_data
from tests.engine.check.files.side_logs import files, log_dir, of, rules, write_checkpoint
from tests.engine.check.logs import found

RULE = "log-start-short"


def without_first_segment(folder: Path, name: str = "side-0") -> int:
    """Remove the files of a log's first segment; the base offset of the next."""
    first, second = files(folder, ".log", name)[:2]
    for path in first.parent.glob(f"{first.stem}.*"):
        path.unlink()
    return int(second.stem)


def of_start(folder: Path) -> list[Finding]:
    return [each for each in found(folder) if each.rule == RULE]


def test_the_first_segment_gone_after_a_clean_stop_is_an_error_with_its_offsets(
    tmp_path: Path,
) -> None:
    folder = log_dir(tmp_path / "dir")
    first = without_first_segment(folder)
    finding = of(folder, RULE)
    assert finding.severity is Severity.ERROR
    assert (finding.first_offset, finding.next_offset) == (0, first)
    assert finding.sentence == (
        f"offsets 0 to {first - 1} ({first}) are gone: the first records file begins at offset {first},"
        " and leader epoch 0 begins at offset 0"
    )


def test_after_a_crash_it_is_a_warning(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "dir", clean=False)
    without_first_segment(folder)
    assert of(folder, RULE).severity is Severity.WARNING


def test_a_compacted_log_keeps_its_first_segment_too(tmp_path: Path) -> None:
    folder = fixtures_data.copy_of("current", tmp_path, ["compacted-0"])
    assert not of_start(folder)
    first = without_first_segment(folder, "compacted-0")
    (finding,) = of_start(folder)
    assert (finding.severity, finding.first_offset, finding.next_offset) == ("error", 0, first)


@pytest.mark.parametrize("kind", ["current", "live", "legacy"])
def test_what_retention_and_delete_records_took_is_no_finding(kind: str) -> None:
    assert not of_start(fixtures_data.log_dir(kind))


def test_a_broker_that_stopped_while_it_deleted_the_segment_is_no_finding(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "dir", clean=False)
    first = files(folder, ".log")[0]
    for path in list(first.parent.glob(f"{first.stem}.*")):
        path.rename(path.with_name(path.name + ".deleted"))
    assert not of_start(folder)


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_start_of_a_minute_ago_is_no_finding_where_the_epochs_have_moved(
    tmp_path: Path, clean: bool
) -> None:
    folder = log_dir(tmp_path / "dir", clean=clean)
    first = without_first_segment(folder)
    write_checkpoint(folder, "log-start", "side 0 1")
    assert of_start(folder)
    for moved_to in (first, first + 1):
        epochs = folder / "side-0" / "leader-epoch-checkpoint"
        epochs.write_text(f"0\n1\n0 {moved_to}\n")
        assert not of_start(folder)


@pytest.mark.parametrize(
    ("has_cache", "severity", "words"),
    [
        (True, Severity.NOTE, "are gone here; tiered storage holds them as a rule:"),
        (False, Severity.WARNING, "are gone here, unless tiered storage holds them:"),
    ],
)
def test_the_local_part_of_a_tiered_log_may_begin_later(
    tmp_path: Path, has_cache: bool, severity: Severity, words: str
) -> None:
    folder = log_dir(tmp_path / "dir")
    without_first_segment(folder)
    write_checkpoint(folder, "log-start", "side 0 0")
    if has_cache:
        (folder / "remote-log-index-cache").mkdir()
    finding = of(folder, RULE)
    assert finding.severity is severity
    assert words in finding.sentence


def test_a_metadata_log_needs_a_snapshot_where_it_begins(tmp_path: Path) -> None:
    folder = fixtures_data.copy_of("current", tmp_path, ["__cluster_metadata-0"])
    log = folder / "__cluster_metadata-0" / f"{0:020}.log"
    assert RULE not in rules(folder)
    for path in list(log.parent.glob("*.checkpoint")):
        path.unlink()
    for path in list(log.parent.glob(f"{0:020}.*")):
        path.rename(path.with_name(f"{5:020}{path.suffix}"))
    (finding,) = of_start(folder)
    assert finding.severity is Severity.ERROR
    assert finding.sentence == (
        "offsets 0 to 4 (5) are gone: the first records file begins at offset 5, and there is no snapshot"
    )
