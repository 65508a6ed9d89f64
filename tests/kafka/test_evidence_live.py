"""Evidence of a directory that a real broker writes to vouches for no bytes but those that are there."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED
from tests.kafka.live_writers import Writers
from tests.kafka.test_live import SETTINGS

SECONDS = 12.0


def vouched(evidence: Path) -> list[tuple[dict[str, Any], str]]:
    """The facts and the SHA-256 of each file with a line for sha256sum."""
    lines = evidence.read_text().splitlines()
    told = [(one, two) for one, two in itertools.pairwise(lines) if not two.startswith("#")]
    return [(json.loads(one[2:]), two.lstrip("\\")[:64]) for one, two in told]


def is_unchanged(facts: dict[str, Any]) -> bool:
    try:
        status = os.stat(facts["path"])
    except FileNotFoundError:
        return False
    known = facts["inode"], facts["size"], facts["mtimeNs"], facts["ctimeNs"]
    return known == (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_evidence_of_a_live_directory_names_what_changed_and_holds_for_the_rest(
    tmp_path: Path,
) -> None:
    states: Counter[str] = Counter()
    files: list[Path] = []
    with Broker(tmp_path / "broker", settings=SETTINGS) as broker:
        writers = Writers(broker.bootstrap, tmp_path / "state.json", SEED)
        try:
            writers.start()
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                files.append(tmp_path / f"evidence-{len(files)}")
                arguments = ["check", str(broker.log_dir), "--evidence", str(files[-1]), "-j2"]
                result = CliRunner().invoke(cli, arguments)
                assert files[-1].exists(), result.output
        finally:
            writers.stop()
        assert not writers.errors
    for file in files:
        for facts, digest in vouched(file):
            if is_unchanged(facts):
                states["held"] += 1
                found = hashlib.sha256(Path(facts["path"]).read_bytes()).hexdigest()
                assert found == digest, facts["path"]
        lines = file.read_text().splitlines()
        states.update(json.loads(line[2:])["type"] for line in lines if line.startswith("# {"))
    assert states["held"] > 100, states
    assert states["changed"] > 0, states
    print(states)
