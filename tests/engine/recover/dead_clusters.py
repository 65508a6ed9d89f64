"""The packed log dirs of a dead cluster, and what is done to them."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

from engine.recover.options import RecoverOptions
from engine.recover.recovering import recover
from tests.fixtures_data import DATA

NODES = (1, 2, 3)


def unpacked(folder: Path) -> list[Path]:
    """Unpack the dead cluster; return the log dir of each node."""
    with tarfile.open(DATA / "dead-cluster.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return [folder / f"node-{node}" / "data" for node in NODES]


def hashes(folders: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of every file below some folders."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def report_of(log_dirs: list[Path], target: Path | None = None, **options: Any) -> dict[str, Any]:
    """Recover; return the report."""
    paths = [str(path) for path in log_dirs]
    made = recover(paths, None if target is None else str(target), RecoverOptions(**options))
    return made.report


def partition_in(report: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a partition of a report."""
    [found] = [each for each in report["partitions"] if each["partition"] == name]
    return found
