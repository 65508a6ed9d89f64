"""`--evidence FILE`: sha256sum and ssh-keygen take the file, and it vouches for nothing that was not read as it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from engine.check.evidence import FileRead, OpenedFiles
from engine.check.log_dir_check import SourceCheck
from kafkafs.cli import cli
from tests.fixtures_data import copy_of
from tests.permissions import modes_count
from tests.unreadable import unreadable_bytes

LOG = "00000000000000000000.log"
sha256sum = pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return copy_of("sample", tmp_path / "data")


def check(data: Path | str, evidence: Path | str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["check", str(data), "--evidence", str(evidence), *arguments])


def facts(evidence: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line[2:] for line in evidence.read_bytes().splitlines() if line.startswith(b"# {")]
    return [each for each in map(json.loads, lines) if each["type"] == kind]


def hashed(evidence: Path) -> dict[str, str]:
    lines = [line for line in evidence.read_text().splitlines() if not line.startswith("#")]
    return {line[66:]: line[:64] for line in lines}


def verified(evidence: Path, folder: Path | None = None) -> tuple[int, list[str]]:
    """Exit status of sha256sum, and the files that it does not find as they were."""
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", evidence],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    return done.returncode, [line.rpartition(": ")[0] for line in done.stdout.splitlines()]


def files_of(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if path.is_file()}


@sha256sum
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_every_file_has_its_line_and_sha256sum_finds_each_as_it_was(
    data: Path, tmp_path: Path, jobs: str
) -> None:
    evidence = tmp_path / "evidence"
    assert check(data, evidence, "--jobs", jobs).exit_code == 1  # warnings, as without --evidence
    assert set(hashed(evidence)) == files_of(data)
    assert verified(evidence) == (0, [])
    for each in facts(evidence, "file"):
        status = os.stat(each["path"])
        assert (each["size"], each["mtimeNs"]) == (status.st_size, status.st_mtime_ns)
        assert (each["inode"], each["device"]) == (status.st_ino, status.st_dev)
    changed = data / "orders-0" / LOG
    changed.write_bytes(changed.read_bytes().replace(b"Lagos", b"Paris", 1))
    assert verified(evidence) == (1, [str(changed)])


@ssh_keygen
def test_a_signature_holds_until_the_evidence_is_changed(data: Path, tmp_path: Path) -> None:
    evidence, key = tmp_path / "evidence", tmp_path / "key"
    check(data, evidence)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    sign = ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "file", evidence]
    subprocess.run(sign, check=True, capture_output=True)
    signers = tmp_path / "signers"
    signers.write_text(f"me {key.with_suffix('.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "me", "-n", "file"]
    verify += ["-s", tmp_path / "evidence.sig"]

    def status(text: bytes) -> int:
        return subprocess.run(verify, input=text, capture_output=True, check=False).returncode

    assert status(evidence.read_bytes()) == 0
    assert status(evidence.read_bytes().replace(b'"errors": 0', b'"errors": 1')) != 0


def test_it_tells_who_looked_when_with_what_and_what_was_found(data: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    lines = check(data, evidence, "--json").stdout.splitlines()
    summary = json.loads(lines[-1])
    (circumstances,) = facts(evidence, "check")
    (end,) = facts(evidence, "end")
    assert circumstances["sources"] == [str(data)]
    assert all(circumstances[each] for each in ("kafkafs", "kafka", "host", "user"))
    assert circumstances["uid"] == os.getuid()
    assert circumstances["started"] <= end["ended"]
    (found,) = facts(evidence, "findings")
    by_rule = found.pop("byRule")
    assert sum(by_rule.values()) == sum(found[each] for each in ("errors", "warnings", "notes"))
    assert {**found, "type": "summary"} == summary
    assert end["files"] == {"read": len(hashed(evidence))}


def test_an_existing_file_and_one_in_the_source_are_refused_before_the_check(
    data: Path, tmp_path: Path
) -> None:
    before = files_of(data)
    known = tmp_path / "known"
    known.write_text("mine")
    link = tmp_path / "link"
    link.symlink_to(data / "orders-0" / "new")
    inside = tmp_path / "way"
    inside.symlink_to(data)
    for refused in (known, link, data / "new", data / "orders-0" / "new", inside / "new"):
        result = check(data, refused)
        assert (result.exit_code, result.stdout) == (2, ""), refused
    assert known.read_text() == "mine"
    assert files_of(data) == before


@sha256sum
def test_names_with_special_characters_are_escaped_as_sha256sum_does(tmp_path: Path) -> None:
    for number, name in enumerate(("new\nline", "back\\slash", "return\r", "caf\udce9", "# hash")):
        data, evidence = copy_of("sample", tmp_path / name), tmp_path / f"evidence-{number}"
        check(data, evidence)
        assert verified(evidence) == (0, []), name
        (data / "orders-0" / LOG).write_bytes(b"")
        assert verified(evidence)[0] == 1, name


@sha256sum
def test_relative_names_stay_relative_so_that_a_copy_can_be_compared(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    check(data.relative_to(tmp_path), "evidence")
    shutil.copytree(data, tmp_path / "copy" / data.relative_to(tmp_path))
    assert verified(tmp_path / "evidence", tmp_path / "copy") == (0, [])


def test_a_file_with_unreadable_bytes_has_no_hash_and_its_stretches(
    data: Path, tmp_path: Path
) -> None:
    evidence, bad = tmp_path / "evidence", data / "orders-0" / LOG
    with unreadable_bytes({bad: [(8192, 12288), (40960, 45056)]}):
        result = check(data, evidence, "--jobs", "1")
    assert result.exit_code == 3
    assert set(hashed(evidence)) == files_of(data) - {str(bad)}
    (told,) = facts(evidence, "unreadable")
    assert told["path"] == str(bad)
    places = [(each["position"], each["length"]) for each in told["stretches"]]
    assert places == [(8192, 4096), (40960, 4096)]
    assert "1 could not be read whole" in result.stderr


def test_a_file_that_may_not_be_opened_is_told(data: Path, tmp_path: Path) -> None:
    evidence, bad = tmp_path / "evidence", data / "orders-1" / LOG
    bad.chmod(0)
    with modes_count():
        result = check(data, evidence, "--jobs", "1")
    assert result.exit_code == 3
    assert str(bad) not in hashed(evidence)
    assert str(bad) in {each["path"] for each in facts(evidence, "unreadable")}


@sha256sum
@pytest.mark.parametrize("kind", ["grown", "touched", "replaced", "deleted"])
def test_a_file_that_changes_meanwhile_has_no_line_for_sha256sum(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    evidence, victim = tmp_path / "evidence", data / "orders-0" / LOG
    size, of_log = victim.stat().st_size, OpenedFiles.of_log

    def after_a_change(
        self: OpenedFiles, log: Any, *given: Any, **named: Any
    ) -> Iterator[FileRead]:
        if log.name == "orders-0":
            whole = victim.read_bytes()
            if kind == "replaced":
                victim.with_suffix(".new").write_bytes(whole)
                victim.with_suffix(".new").rename(victim)
            elif kind == "deleted":
                victim.unlink()
            elif kind == "touched":  # other bytes under the old mtime
                status = victim.stat()
                victim.write_bytes(whole.replace(b"Lagos", b"Paris", 1))
                os.utime(victim, ns=(status.st_atime_ns, status.st_mtime_ns))
            else:
                with victim.open("ab") as file:
                    file.write(b"more")
        yield from of_log(self, log, *given, **named)

    monkeypatch.setattr(OpenedFiles, "of_log", after_a_change)
    result = check(data, evidence, "--jobs", "1")
    assert str(victim) not in hashed(evidence)
    state = "gone" if kind in ("replaced", "deleted") else "changed"
    (told,) = facts(evidence, state)
    assert (told["path"], told["size"]) == (str(victim), size)
    assert f"; 1 {'were gone' if state == 'gone' else 'changed'}" in result.stderr
    if kind == "grown":  # what was hashed can be compared all the same
        start = victim.read_bytes()[: told["hashedBytes"]]
        assert hashlib.sha256(start).hexdigest() == told["sha256OfThem"]


def test_files_that_nobody_opened_are_told_without_a_hash(data: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "evidence"
    for name in (".lock", "orders-0/notes.txt"):
        (data / name).write_text("something")
    check(data, evidence)
    told = {each["path"]: each for each in facts(evidence, "notRead")}
    assert set(told) <= {str(data / ".lock"), str(data / "orders-0/notes.txt")}
    assert str(data / "orders-0/notes.txt") in told
    assert not set(told) & set(hashed(evidence))
    assert set(told) | set(hashed(evidence)) == files_of(data)


def test_a_stopped_check_leaves_no_evidence(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: SourceCheck) -> Iterator[object]:
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(SourceCheck, "run", stopped)
    before = set(tmp_path.iterdir())
    check(data, tmp_path / "evidence")
    assert set(tmp_path.iterdir()) == before


@sha256sum
def test_a_report_has_evidence_too(data: Path, tmp_path: Path) -> None:
    evidence, page = tmp_path / "evidence", tmp_path / "page.html"
    arguments = ["report", str(data), "-o", str(page), "--evidence", str(evidence)]
    assert CliRunner().invoke(cli, arguments).exit_code in (0, 1)
    assert page.exists()
    assert verified(evidence) == (0, [])
    assert set(hashed(evidence)) == files_of(data)
