"""The single file unpacks itself once, for its user alone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

PACKAGING = Path(__file__).resolve().parents[2] / "scripts" / "packaging"
PYTHON = """#!/bin/sh
[ "$2" = -c ] && exit
shift
echo "$(basename "$1") $(basename "$2") $3"
"""


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The single file of a program that prints how it was called."""
    single_file = _module(monkeypatch, "single_file")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    home = tmp_path / "program"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python3.11").write_text(PYTHON)
    (home / "bin" / "python3.11").chmod(0o755)
    (home / "kafkafs.py").touch()
    made: list[bytes] = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(single_file.pack(home, tmp_path / name / "kafkafs").read_bytes())
    assert made[0] == made[1]
    return tmp_path / "one" / "kafkafs"


def _module(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    monkeypatch.syspath_prepend(PACKAGING)
    return __import__(name)


def _call(program: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([program, "x y"], capture_output=True, text=True, check=False, env=given)


def test_a_single_file_unpacks_itself_once(packed: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = _call(packed, HOME=str(tmp_path))
        assert done.stdout == "kafkafs.py kafkafs x y\n", done.stderr
        (unpacked,) = (tmp_path / ".cache" / "kafkafs").iterdir()
        assert (tmp_path / ".cache" / "kafkafs").stat().st_mode & 0o777 == 0o700
    (unpacked / "kafkafs.py").write_text("kept")
    _call(packed, HOME=str(tmp_path))
    assert (unpacked / "kafkafs.py").read_text() == "kept"


def test_a_folder_behind_a_link_is_not_trusted(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kafkafs").symlink_to(tmp_path / "other")
    done = _call(
        packed, XDG_CACHE_HOME=str(tmp_path / "cache"), KAFKAFS_UNPACKED=str(tmp_path / "mine")
    )
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "other").iterdir()) == []
    assert len(list((tmp_path / "mine" / "kafkafs").iterdir())) == 1


def test_a_file_that_names_the_folder_of_its_build_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = _module(monkeypatch, "bundle")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "clean.py").write_text("/kafkafs/lib/clean.py")
    assert bundle.files_that_name(tmp_path) == []
    (tmp_path / "lib" / "module.pyc").write_bytes(b"\0" + os.fsencode(tmp_path) + b"/module.py")
    assert bundle.files_that_name(tmp_path) == ["lib/module.pyc"]
