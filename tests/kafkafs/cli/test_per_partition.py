"""What one more partition costs a command, in Python calls: a command over 100,000 partitions pays it as often."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import Rec, batch, write_segment

COUNT = """
import sys
from kafkafs.cli import main
calls = 0
def count(_frame, event, _argument):
    global calls
    calls += event == "call"
sys.argv = ["kafkafs", *sys.argv[1:]]
sys.setprofile(count)
try:
    main()
except SystemExit:
    sys.setprofile(None)
    print(calls, file=sys.stderr)
"""
FEW, MANY = 20, 60


def log_dir_of(folder: Path, partitions: int) -> Path:
    for number in range(partitions):
        own = folder / f"topic-{number // 10}-{number % 10}"
        write_segment(own, [batch([Rec(b"value")])])
    return folder


def calls(command: list[str], source: Path) -> int:
    run = subprocess.run(
        [sys.executable, "-c", COUNT, *command, str(source)], capture_output=True, check=True
    )
    return int(run.stderr.decode().split()[-1])


@pytest.mark.parametrize(
    ("command", "least", "most"),
    [(["ls", "-l"], 40, 75), (["offsets"], 100, 210), (["check", "-j1"], 500, 1300)],
)
def test_one_more_partition_costs_few_calls(
    command: list[str], least: int, most: int, tmp_path: Path
) -> None:
    few = calls(command, log_dir_of(tmp_path / "few", FEW))
    many = calls(command, log_dir_of(tmp_path / "many", MANY))
    each = (many - few) / (MANY - FEW)
    assert least <= each <= most
