"""Code for executors as a zip file for `--py-files`, with the compiled kernel.

Executors need NumPy and PyArrow for the same minor version of Python; everything else is in the file.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import engine
from engine.disk.disk import DISK, Disk

ZIP, JOB = "kafkafs.zip", "kafkafs_job.py"
# In a wheel the engine is inside kafkafs.
_PACKAGES = tuple(dict.fromkeys((engine.__name__.partition(".")[0], "kafkafs", "click")))
_ENDINGS = (".py", ".so", ".properties", ".txt", ".typed", "RULES.md")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_JOB_TEXT = '''"""An application for spark-submit: `kafkafs` with the arguments after this file, and with --spark."""

import sys

from kafkafs.cli import main

command, *arguments = sys.argv[1:] or ["--help"]
is_job = command in ("spark", "--help")
main([command, *arguments] if is_job else [command, "--spark", "its --master", *arguments])
'''


def code_archive() -> bytes:
    """Return the zip file; the same code gives the same bytes.

    Raises:
        RuntimeError: the code is in a zip file itself; send that one.
    """
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in _PACKAGES:
            for name, path in _files(import_module(package)):
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr = 0o644 << 16
                with open(path, "rb") as file:
                    zipped.writestr(entry, file.read(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


def write_code(folder: str, disk: Disk = DISK) -> tuple[str, str]:
    """Write ZIP and JOB, the application, into a folder, and make the folder; return both paths.

    Raises OSError.
    """
    disk.make_folder(folder)
    archive, job = os.path.join(folder, ZIP), os.path.join(folder, JOB)
    disk.replace_atomically(archive, code_archive())
    disk.replace_atomically(job, _JOB_TEXT.encode())
    return archive, job


def _files(package: ModuleType) -> Iterator[tuple[str, str]]:
    """Yield a package's files as (name in the zip file, path)."""
    (home,) = package.__path__
    if not os.path.isdir(home):
        raise RuntimeError(f"{package.__name__} is not in a folder: {home}; send that file itself")
    above = os.path.dirname(home)
    for folder, folders, files in os.walk(home):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(_ENDINGS):
                path = os.path.join(folder, name)
                yield os.path.relpath(path, above), path
