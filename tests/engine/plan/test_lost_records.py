"""Which records are lost when files go whose batches or names do not say what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.coding.compression import CompressionType
from engine.files.source_files import SourceRoot
from engine.plan.lost_records import Losses, LostOffsets, lost_records
from engine.plan.overlay.file_changes import ChangeKind, FileChange
from tests.builders import batch, message, patched, values, wrapper

NAME = f"{0:020}.log"


def lost(folder: Path, data: bytes, log_start: int = 0) -> Losses:
    """What goes with a records file that is deleted."""
    (folder / NAME).write_bytes(data)
    with SourceRoot(str(folder)) as root:
        change = FileChange(NAME, ChangeKind.DELETED, len(data))
        return lost_records(root, "", [change], log_start, [])


@pytest.mark.parametrize("says", [0, 7, 20])
def test_an_old_compressed_batch_has_the_offsets_of_its_records_whatever_it_says(
    tmp_path: Path, says: int
) -> None:
    inside = [message(offset, b"k", b"v", magic=0) for offset in range(5, 10)]
    gone = lost(tmp_path, wrapper(inside, says, CompressionType.GZIP, magic=0))
    assert (gone.records, gone.ranges) == (5, (LostOffsets(5, 10),))


def test_of_a_batch_across_the_log_start_only_the_rest_is_lost(tmp_path: Path) -> None:
    first, second = batch(values(*"abcd"), 0), batch(values(*"efgh"), 4)
    gone = lost(tmp_path, first + second, log_start=6)
    assert (gone.records, gone.ranges) == (2, (LostOffsets(6, 8),))
    inside = [message(offset, b"k", b"v", magic=0) for offset in range(4)]
    gone = lost(tmp_path, wrapper(inside, 3, CompressionType.GZIP, magic=0), log_start=3)
    assert (gone.records, gone.ranges) == (1, (LostOffsets(3, 4),))


def test_a_lowered_base_offset_lowers_what_is_lost(tmp_path: Path) -> None:
    lowered = patched(batch(values(*"abc"), 100), 0, (90).to_bytes(8))
    assert lost(tmp_path, lowered).ranges == (LostOffsets(90, 93),)


def test_in_damage_nothing_is_a_batch_that_is_below_what_stays(tmp_path: Path) -> None:
    stays, old = batch(values(*"abc"), 20), batch(values("stray"), 0)
    data = stays + bytes(50) + old + batch(values(*"def"), 30)
    (tmp_path / NAME).write_bytes(data)
    change = FileChange(NAME, ChangeKind.TRUNCATED, len(data), len(stays))
    with SourceRoot(str(tmp_path)) as root:
        gone = lost_records(root, "", [change], 0, [], ends={NAME: 23})
    assert (gone.records, gone.ranges) == (3, (LostOffsets(30, 33),))
    assert gone.damaged_bytes == 50 + len(old)
