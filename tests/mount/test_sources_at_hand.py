"""A mount shows what people have in hand as one partition, or says why it shows nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafkafs.sources_at_hand import Source, at_hand
from tests.mount.mounted import needs_fuse

pytestmark = [pytest.mark.mount, needs_fuse]
__all__ = ["at_hand"]


def kafkafs(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkafs", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_mount_has_the_records_or_says_why_not(
    at_hand: tuple[Path, Source], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path, expected = at_hand
    mountpoint = tmp_path_factory.mktemp("mnt")
    done = kafkafs("mount", path, mountpoint)
    if expected.topic is None:
        assert done.returncode == 3
        assert any(words in done.stderr for words in expected.refusal.split("|")), done.stderr
        assert not any(mountpoint.iterdir())
        return
    assert done.returncode == 0, done.stderr
    try:
        name = f"{expected.topic}-{expected.number}"
        assert [each.name for each in mountpoint.iterdir() if each.name.startswith(name)] == [name]
        lines = [
            json.loads(line)
            for file in sorted((mountpoint / name / "records").iterdir())
            for line in file.read_text().split("\n")[:-1]
        ]
    finally:
        assert kafkafs("umount", mountpoint).returncode == 0
    places = {(line["topic"], line["partition"]) for line in lines}
    assert (len(lines), places) == (expected.records, {(expected.topic, expected.number)})
