"""Folders of a test that any user may enter; pytest makes them for one user alone."""

from __future__ import annotations

import stat
from pathlib import Path


def let_all_enter(folder: Path) -> None:
    """Let every user enter a folder, and those above it."""
    for each in (folder, *folder.parents):
        mode = stat.S_IMODE(each.stat().st_mode)
        if mode & 0o011 != 0o011:
            each.chmod(mode | 0o011)


def share(folder: Path, *, folders: int, files: int) -> None:
    """Give a folder, and all in it, modes."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(folders if path.is_dir() else files)
