"""The end of a log is the highest that anything proves, not what its records files happen to hold."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.check.rules.rules import Severity
from tests import fixtures_data
from tests.engine.check.files.side_logs import files, log_dir, of, rules, write_checkpoint
from tests.engine.check.logs import bad, found

RULE = "log-end-short"


def last_offset(folder: Path) -> int:
    return int((folder / "recovery-point-offset-checkpoint").read_text().split()[-1])


def without_proof(folder: Path, *, clean: bool) -> Path:
    """A log dir without checkpoints and producer snapshots."""
    log_dir(folder, clean=clean)
    for path in (*folder.glob("*-checkpoint"), *folder.glob("side-0/*.snapshot")):
        path.unlink()
    return folder


def remove(*logs: Path) -> None:
    """Remove segments, with all that is called like them."""
    for log in logs:
        for path in log.parent.glob(f"{log.stem}.*"):
            path.unlink()


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


@pytest.mark.parametrize("clean", [True, False])
def test_a_leader_epoch_proves_that_the_log_reached_its_start(tmp_path: Path, clean: bool) -> None:
    folder = without_proof(tmp_path / "dir", clean=clean)
    epochs = folder / "side-0" / "leader-epoch-checkpoint"
    start = int(epochs.read_text().split()[-1])
    logs = files(folder, ".log")
    last = max(at for at, path in enumerate(logs) if int(path.stem) <= start)
    remove(*logs[last:])
    finding = of(folder, RULE)
    assert finding.next_offset == start
    assert finding.sentence.endswith(f"and leader epoch 4 begins at offset {start}")


def test_a_leader_epoch_that_a_batch_below_its_start_states_proves_nothing(tmp_path: Path) -> None:
    folder = without_proof(tmp_path / "dir", clean=False)
    epochs = folder / "side-0" / "leader-epoch-checkpoint"
    lines = epochs.read_text().split("\n")
    lines[-2] = "4 9999"
    epochs.write_text("\n".join(lines))
    assert RULE not in rules(folder)
    assert "epochs-past-end" in rules(folder)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_without_its_records_file_proves_the_offset_of_its_last_entry(
    tmp_path: Path, suffix: str
) -> None:
    folder = without_proof(tmp_path / "dir", clean=False)
    *_, log, last = files(folder, ".log")
    index, base = log.with_suffix(suffix), int(log.stem)
    data = bytearray(index.read_bytes())
    remove(log, last)
    index.write_bytes(data)
    (relative,) = struct.unpack_from(">i", data, len(data) - {".index": 8, ".timeindex": 4}[suffix])
    finding = of(folder, RULE)
    assert (finding.first_offset, finding.next_offset) == (base, base + relative + 1)
    assert f"{index.name} has an entry for offset {base + relative}" in finding.sentence

    struct.pack_into(">i", data, {".index": 0, ".timeindex": 8}[suffix], 2**30)
    index.write_bytes(data)
    assert RULE not in rules(folder), "of an index out of order only the name counts"


def test_an_index_that_a_broker_was_about_to_delete_proves_nothing(tmp_path: Path) -> None:
    folder = without_proof(tmp_path / "dir", clean=False)
    log = files(folder, ".log")[-1]
    log.rename(log.with_suffix(".log.deleted"))
    assert RULE not in rules(folder)


def test_after_a_clean_stop_an_index_cannot_outvote_where_two_agree(tmp_path: Path) -> None:
    folder = log_dir(tmp_path / "dir")
    end = last_offset(folder)
    log = files(folder, ".log")[-1]
    log.unlink()
    index = log.with_suffix(".timeindex")
    data = bytearray(index.read_bytes())
    struct.pack_into(">i", data, len(data) - 4, 2**30)
    index.write_bytes(data)
    finding = of(folder, RULE)
    assert finding.next_offset == end
