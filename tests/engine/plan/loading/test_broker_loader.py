"""What a recovery that meets damage leaves beside the records file: snapshots, transaction indexes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from engine.units import TopicPartition
from tests.builders import (
    Producer,
    SnapshotEntry,
    batch,
    end_marker,
    patched,
    producer_snapshot,
    values,
)
from tests.plan_answers import planned

LONG_AFTER = 1_795_000_000_000
"""Days after what the builders' batches say."""
SECOND = 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "t-0"
    path.mkdir()
    return path


def write(folder: Path, base_offset: int, *batches: bytes) -> None:
    (folder / f"{base_offset:020}.log").write_bytes(b"".join(batches))
    (folder / f"{base_offset:020}.index").write_bytes(b"")


def files_after(folder: Path, recovery_point: int) -> dict[str, list[Any]]:
    """Size and SHA-256 by name after a start that follows a crash."""
    points = {TopicPartition("t", 0): recovery_point}
    answers = planned(
        folder.parent,
        LONG_AFTER,
        {"index.interval.bytes": "100"},
        clean=False,
        recovery_points=points,
        log_starts={},
    )
    return answers["t-0"][1]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_producers_that_have_expired_stay_as_they_do_when_no_damage_is_met(
    folder: Path, is_damaged: bool
) -> None:
    write(folder, 0, batch(values(*"abcdefghij"), 0, producer=Producer(id=33)))
    tail = bytes(61) if is_damaged else b""
    write(folder, SECOND, batch(values("k"), SECOND, producer=Producer(id=1)), tail)
    files = files_after(folder, recovery_point=SECOND)
    both = producer_snapshot(
        [SnapshotEntry(33, 0, -1, 9, 9, timestamp=1_700_000_000_009),
         SnapshotEntry(1, 0, -1, SECOND)]
    )  # fmt: skip
    name = f"{SECOND + 1:020}.snapshot"
    assert files[name] == [len(both), hashlib.sha256(both).hexdigest()]


@pytest.mark.parametrize("is_disordered", [False, True])
def test_aborts_behind_disordered_offsets_are_not_reached(
    folder: Path, is_disordered: bool
) -> None:
    aborted = Producer(id=5)
    batches = [batch(values("some text" * 20), offset) for offset in range(3)]
    if is_disordered:
        batches[1] = patched(batches[1], 0, (500).to_bytes(8))
    batches += [
        batch(values("never"), 3, producer=aborted, transactional=True),
        end_marker(4, aborted, commit=False),
    ]
    write(folder, 0, *batches)
    files = files_after(folder, recovery_point=0)
    assert (f"{0:020}.txnindex" in files) is not is_disordered
    assert files[f"{0:020}.log"][0] == (0 if is_disordered else sum(map(len, batches)))
