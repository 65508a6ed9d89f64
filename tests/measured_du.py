"""What du prints of folders and files: the judge of counted bytes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path


def du(*paths: Path | str) -> tuple[int, int]:
    """Allocated and apparent bytes of all paths, with those of the folders themselves.

    Newer releases of du leave the folders out of the apparent bytes: they are added here.
    """
    apparent = _du("--apparent-size", *paths)
    if not counts_folders():
        apparent += sum(map(folder_bytes, paths))
    return _du(*paths), apparent


def folder_bytes(path: Path | str) -> int:
    """The sizes of a folder and of all below it."""
    if not os.path.isdir(path):
        return 0
    return sum(os.stat(folder).st_size for folder, _, _ in os.walk(path))


@cache
def counts_folders() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return _du("--apparent-size", folder) == os.stat(folder).st_size


def _du(*arguments: object) -> int:
    command = ["du", "-sc", "-B1", *map(str, arguments)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return int(printed.splitlines()[-1].split()[0])
