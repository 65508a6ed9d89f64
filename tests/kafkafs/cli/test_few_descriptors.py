"""A partition of 600 segments in a process with few descriptors: every command reads it, and a rebuild writes it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.checkpoint.base64_uuid import random_uuid
from tests import builders
from tests.builders import Rec

SEGMENTS, RECORDS = 600, 3
LIMIT = 256

PEAK = """
import os, sys
from engine.rebuild import rebuilding
from engine.disk.disk import Disk
from engine.rebuild.options import Mode, RebuildOptions

most = 0

class Watching(Disk):
    def open(self, path, **options):
        global most
        file = super().open(path, **options)
        most = max(most, len(os.listdir("/proc/self/fd")))
        return file

source, target, mode, jobs = sys.argv[1:]
options = RebuildOptions(mode=Mode(mode), jobs=int(jobs))
made = rebuilding.rebuild(source, target, options, disk=Watching())
print(most, made.partitions[0]["logEndOffset"])
"""
"""Rebuilds, and prints the most descriptors that were ever open when a file was opened to write, and the log end."""


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    log_dir = tmp_path_factory.mktemp("many") / "data"
    folder = log_dir / "orders-0"
    folder.mkdir(parents=True)
    for base in range(0, SEGMENTS * RECORDS, RECORDS):
        records = [Rec(f"v{base + at}".encode()) for at in range(RECORDS)]
        (folder / f"{base:020}.log").write_bytes(builders.batch(records, base, leader_epoch=0))
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: sgf5MsZgRTuEMv68ZXKJbQ")
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (log_dir / "meta.properties").write_text(
        f"version=1\ncluster.id={random_uuid()}\nnode.id=1\ndirectory.id={random_uuid()}\n"
    )
    return log_dir


def limited(limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def run(*arguments: str, limit: int = LIMIT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        preexec_fn=limited(limit),
        capture_output=True,
        text=True,
        check=False,
    )


COMMANDS = {
    "check": 1,  # each segment lacks its indexes
    "plan": 1,  # there is no metadata log
    "stats": 0,
    "du": 0,
    "offsets": 0,
    "ls": 0,
    "dump": 0,
    "cat -- SOURCE orders-0/offset/890..910": 0,
    "cp SOURCE orders-0/records TARGET": 0,
    "grep -c v17 SOURCE": 0,
    "export SOURCE TARGET": 0,
    "report SOURCE -o TARGET": 1,
    "rebuild SOURCE TARGET": 0,
    "rebuild SOURCE TARGET --mode broker": 0,
    "rebuild SOURCE TARGET --jobs 4": 0,
    "rebuild SOURCE TARGET --merge SOURCE2": 0,
    "rebuild SOURCE --dry-run": 0,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_needs_a_descriptor_for_each_segment(
    log_dir: Path, tmp_path: Path, command: str
) -> None:
    second = tmp_path / "second"
    second.symlink_to(log_dir)
    places = {"SOURCE": log_dir, "TARGET": tmp_path / "target", "SOURCE2": second}
    words = [str(places.get(word, word)) for word in command.split()]
    if len(words) == 1:
        words.append(str(log_dir))
    done = run("-m", "kafkafs", *words)
    assert done.returncode == COMMANDS[command], done.stderr
    assert "Too many open files" not in done.stdout + done.stderr


@pytest.mark.parametrize(("mode", "jobs"), [("salvage", 1), ("salvage", 4), ("broker", 1)])
def test_a_rebuild_has_as_many_descriptors_for_few_segments_as_for_many(
    log_dir: Path, tmp_path: Path, mode: str, jobs: int
) -> None:
    done = run("-c", PEAK, str(log_dir), str(tmp_path / "target"), mode, str(jobs))
    assert done.returncode == 0, done.stderr
    peak, end = map(int, done.stdout.split())
    print(f"{SEGMENTS} segments, {mode}, {jobs} jobs: {peak} descriptors")
    assert end == SEGMENTS * RECORDS
    assert peak < 160
    written = json.loads((tmp_path / "target" / "kafkafs-rebuild.json").read_text())["files"]
    assert len([each for each in written if each["path"].endswith(".log")]) == SEGMENTS
