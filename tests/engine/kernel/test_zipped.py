"""The compiled kernel is found in a zip file too, and what cannot be loaded is none."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from zipimport import zipimporter

import pytest

from engine import kernel
from engine.kernel import zipped as zipped_kernel

ROOT = Path(__file__).resolve().parents[3]
HERE = f"""
import sys
sys.path[:] = [sys.argv[1], *(path for path in sys.path if path not in ("", {str(ROOT)!r}))]
sys.meta_path[:] = [found for found in sys.meta_path if "Editable" not in repr(found)]
from engine import kernel
print(kernel.is_compiled(), kernel.__file__.startswith(sys.argv[1]), kernel.name)
"""


def _zipped(path: Path, kernel_data: bytes | None) -> Path:
    with zipfile.ZipFile(path, "w") as zipped:
        for file in (ROOT / "engine").rglob("*.py"):
            zipped.write(file, file.relative_to(ROOT))
        if kernel_data is not None:
            zipped.writestr(f"engine/kernel/compiled{EXTENSION_SUFFIXES[0]}", kernel_data)
    return path


def _answer(path: Path) -> list[str]:
    command = [sys.executable, "-c", HERE, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


@pytest.mark.skipif(not kernel.is_compiled(), reason="the kernel was not built")
def test_a_zip_file_gives_the_compiled_kernel(tmp_path: Path) -> None:
    built = (ROOT / "engine" / "kernel" / f"compiled{EXTENSION_SUFFIXES[0]}").read_bytes()
    assert _answer(_zipped(tmp_path / "code.zip", built)) == ["True", "True", "compiled"]


@pytest.mark.parametrize("data", [None, b"", b"not a library"], ids=["none", "empty", "broken"])
def test_a_zip_file_without_one_gives_the_twin(data: bytes | None, tmp_path: Path) -> None:
    assert _answer(_zipped(tmp_path / "code.zip", data)) == ["False", "True", "python"]


def test_what_no_zip_file_holds_is_not_looked_for(tmp_path: Path) -> None:
    assert zipped_kernel.load(kernel.__loader__) is None
    path = _zipped(tmp_path / "code.zip", None)
    assert zipped_kernel.load(zipimporter(str(path))) is None
