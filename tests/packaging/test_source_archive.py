"""A wheel is built from the sources as an archive has them: without .git and PKG-INFO, in a folder of any name."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
@pytest.mark.parametrize("folder", ["src", "kafkafs-0123456789abcdef"])
def test_a_wheel_builds_from_an_archive_in_a_folder_of_any_name(
    folder: str, tmp_path: Path
) -> None:
    home = tmp_path / folder
    home.mkdir()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    names = [
        name
        for name in listed.stdout.split(b"\0")
        if name and os.path.exists(ROOT / os.fsdecode(name))
    ]
    archive = ["tar", "-c", "--null", "--mtime=@1700000000", "-T", "-"]
    packed = subprocess.run(
        archive, cwd=ROOT, input=b"\0".join(names), check=True, capture_output=True
    )
    subprocess.run(["tar", "-x"], cwd=home, input=packed.stdout, check=True)
    out = tmp_path / "out"
    out.mkdir()
    # Without a compiler, which takes a minute.
    done = subprocess.run(
        [sys.executable, home / "scripts" / "packaging" / "build_backend.py", out],
        cwd=home,
        env={**os.environ, "CC": "false", "PYTHONPATH": str(home / "scripts" / "packaging")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("kafkafs-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        files = {each.filename: each.date_time for each in opened.infolist()}
    assert {"kafkafs/__init__.py", "kafkafs/engine/version.py"} <= files.keys()
    assert files["kafkafs/__init__.py"][:3] == (2023, 11, 14)
