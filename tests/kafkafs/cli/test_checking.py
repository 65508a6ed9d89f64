"""`kafkafs check` as a user meets it: what it prints, filters, exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.check.rules.rules import RULES
from kafkafs.cli import cli, main
from tests.fixtures_data import copy_of, log_dir
from tests.open_folders import let_all_enter, share

ORDERS = str(log_dir("sample") / "orders-0")
LOG = "00000000000000000000.log"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", *arguments])


def objects(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").stdout.splitlines()]


@pytest.fixture
def hurt(tmp_path: Path) -> Path:
    """A partition whose third batch has a wrong byte."""
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS, folder)
    data = bytearray((folder / LOG).read_bytes())
    data[5000] ^= 1
    (folder / LOG).write_bytes(data)
    return folder


def test_a_sound_partition_is_status_0_and_one_line() -> None:
    result = run(ORDERS)
    assert result.exit_code == 0
    assert result.stdout == (
        "1 partition, 3 segments, 82 batches, 1,000 records, 164,391 bytes:"
        " 0 errors, 0 warnings, 0 notes\n"
    )


def test_damage_is_told_with_its_place_what_to_do_and_a_table(hurt: Path) -> None:
    result = run(str(hurt))
    assert result.exit_code == 1
    text = result.stdout
    assert text.startswith("orders-0\n  error   batch-checksum: ")
    assert f"{hurt}/{LOG}, byte 3904 to 5925, offsets 25..37" in text
    assert f"→ {RULES['batch-checksum'].advice}" in text
    assert f"hole    {LOG}, byte 3904 to 5925 (2021 bytes), offsets 25..37" in text
    row = next(line for line in text.splitlines() if line.startswith("orders-0 "))
    assert row.split()[1:] == ["1", "0", "0", "1", "2021"]


def test_json_has_findings_then_partitions_with_their_holes_and_a_summary(hurt: Path) -> None:
    finding, partition, summary = objects(str(hurt))
    assert [each["type"] for each in (finding, partition, summary)] == [
        "finding", "partition", "summary",
    ]  # fmt: skip
    facts = {name: finding[name] for name in ("rule", "severity", "position", "length")}
    assert facts == {
        "rule": "batch-checksum",
        "severity": "error",
        "position": 3904,
        "length": 2021,
    }
    assert (finding["firstOffset"], finding["nextOffset"]) == (25, 37)
    (hole,) = partition["holes"]
    assert (hole["position"], hole["length"]) == (3904, 2021)
    assert (hole["firstOffset"], hole["nextOffset"]) == (25, 37)
    assert (summary["errors"], summary["holeBytes"], summary["partitions"]) == (1, 2021, 1)


def test_rule_and_severity_choose_findings_and_the_status_goes_by_them(hurt: Path) -> None:
    assert run(str(hurt), "--rule", "offset-order").exit_code == 0
    assert run(str(hurt), "--rule", "batch-checksum").exit_code == 1
    assert run(str(hurt), "--severity", "error").exit_code == 1
    notes = objects(str(log_dir("current")), "--severity", "warning")
    assert not [each for each in notes if each.get("severity") == "note"]


def test_files_that_the_brokers_user_may_not_use_are_errors_with_their_owner(
    tmp_path: Path,
) -> None:
    folder = copy_of("sample", tmp_path)
    let_all_enter(folder)
    share(folder, folders=0o777, files=0o666)
    (folder / "orders-0" / LOG).chmod(0o640)
    assert run(str(folder), "--rule", "file-rights").exit_code == 0
    result = run(str(folder), "--broker-user", "4711", "--rule", "file-rights")
    assert result.exit_code == 1
    assert "file-rights: 4711 may not read or write it (" in result.stdout
    assert f"{folder}/orders-0/{LOG}\n" in result.stdout
    given = objects(str(folder), "--broker-user", "4711", "--rule", "file-rights")
    (facts,) = (each["facts"] for each in given if each["type"] == "finding")
    assert facts == {"user": "4711", "missing": "read or write"}


def test_a_write_protected_log_dir_is_a_note(tmp_path: Path) -> None:
    folder = copy_of("sample", tmp_path)
    share(folder, folders=0o555, files=0o444)
    result = run(str(folder), "--rule", "file-system")
    share(folder, folders=0o755, files=0o644)
    assert (
        "note    file-system: write-protected: a broker starts only where it may write"
        in result.stdout
    )
    assert result.exit_code == 0


def test_the_files_of_one_partition_are_compared_too(tmp_path: Path) -> None:
    folder = copy_of("sample", tmp_path)
    let_all_enter(folder)
    share(folder, folders=0o777, files=0o666)
    (folder / "orders-0" / LOG).chmod(0o644)
    result = run(str(folder / "orders-0"), "--broker-user", "4711", "--rule", "file-rights")
    assert f"{folder}/orders-0/{LOG}\n" in result.stdout
    (tmp_path / "mail").mkdir()
    mailed = shutil.copy(folder / "orders-0" / LOG, tmp_path / "mail" / "mailed.log")
    alone = run(str(mailed), "--broker-user", "4711")
    assert alone.exit_code == 2
    assert "--broker-user is about log dirs" in alone.stderr


def test_topics_are_chosen_by_pattern(hurt: Path, tmp_path: Path) -> None:
    copy = copy_of("sample", tmp_path)
    named = [
        each["partition"]
        for each in objects(str(copy), "--topic", "orders")
        if each["type"] == "partition"
    ]
    assert named == ["orders-0", "orders-1"]
    one = [
        each["partition"]
        for each in objects(str(copy), "--topic", "orders", "--partition", "1")
        if each["type"] == "partition"
    ]
    assert one == ["orders-1"]


def test_an_unknown_rule_is_a_usage_error() -> None:
    result = run(ORDERS, "--rule", "no-such-rule")
    assert result.exit_code == 2
    assert "--list-rules" in result.stderr


def test_all_rules_are_listed() -> None:
    lines = run("--list-rules").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(RULES)


def test_a_source_that_is_not_there_is_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["check", "/no/such/folder"])
    assert left.value.code == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_names_that_would_drive_a_terminal_are_shown_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS, folder)
    (folder / "\x1b[31mred.log").touch()
    text = run(str(folder)).stdout
    assert "file-name" in text
    assert "\x1b" not in text


def test_two_copies_are_compared(hurt: Path) -> None:
    result = run(ORDERS, "--replica", str(hurt))
    assert result.exit_code == 1
    assert "replica-lacks" in result.stdout
    assert run(ORDERS, "--replica", ORDERS).exit_code == 0


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_any_number_of_threads_says_the_same(jobs: str, hurt: Path) -> None:
    assert run(str(hurt), "--jobs", jobs).stdout == run(str(hurt)).stdout


def test_a_source_without_partitions_is_not_called_sound(tmp_path: Path) -> None:
    folder = copy_of("current", tmp_path, [])
    for path in folder.glob("*-offset-checkpoint"):
        path.unlink()
    result = run(str(folder))
    assert result.exit_code == 1
    assert result.stdout == (
        "Nothing was checked: no partition was read. In the log dir's own files:"
        " 0 errors, 0 warnings, 0 notes\n"
    )


def test_a_partition_without_records_is_told_from_one_whose_records_are_sound() -> None:
    result = run(str(log_dir("current") / "empty-0"))
    assert result.stdout == (
        "1 partition, 1 segment, 0 batches, 0 records, 0 bytes (there was no record to check):"
        " 0 errors, 0 warnings, 0 notes\n"
    )


def test_the_closing_line_counts_only_what_was_asked_for(hurt: Path) -> None:
    warnings = run(str(hurt), "--severity", "warning").stdout.splitlines()[-2]
    assert warnings.endswith(": 1 error, 0 warnings")
    *_, rule, lost = run(str(hurt), "--rule", "gap-loss").stdout.splitlines()
    assert lost.startswith("lost for good here: 12 offsets in 1 partition, about 2023-11-14T22:14Z")
    assert rule.endswith(": 0 errors, 0 warnings, 0 notes (only --rule gap-loss)")


def test_the_closing_line_says_that_not_everything_was_read(tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    shutil.copytree(ORDERS, folder)
    (folder / "00000000000000000790.log").rename(tmp_path / "elsewhere")
    (folder / "00000000000000000790.log").symlink_to(tmp_path / "elsewhere")
    lines = run(str(folder), "--rule", "gap-loss").stdout.splitlines()
    assert lines[-2] == "Not everything was read: 1 finding names the unread parts."
    assert objects(str(folder), "--rule", "gap-loss")[-1]["notRead"] == 1
