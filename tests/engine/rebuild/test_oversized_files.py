"""A rebuild as a broker would load it, of files far larger than a broker makes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.rebuilding import rebuild
from tests import builders
from tests.builders import Rec
from tests.engine.rebuild.made_logs import MadeLog


@pytest.mark.parametrize(
    ("name", "size"),
    [
        (f"{5:020}.log", 9 << 30),
        (f"{0:020}.index", 100 << 30),
        (f"{0:020}.timeindex", 100 << 30),
        (f"{0:020}.txnindex", 100 << 30),
        (f"{0:020}.snapshot", 100 << 30),
        ("partition.metadata", 3 << 30),
        ("leader-epoch-checkpoint", 3 << 30),
    ],
)
def test_a_log_with_an_oversized_file_is_left_out_before_it_is_copied_and_the_others_are_made(
    tmp_path: Path, name: str, size: int
) -> None:
    for folder in ("orders-0", "orders-1"):
        made = MadeLog(tmp_path / "source", folder)
        made.folder.mkdir(parents=True)
        made.path(0).write_bytes(builders.batch([Rec(b"x")]))
    (made.folder / name).touch()
    os.truncate(made.folder / name, size)
    options = RebuildOptions(mode=Mode.BROKER)
    result = rebuild(str(made.log_dir), str(tmp_path / "target"), options)
    [left_out] = result.left_out
    assert left_out.path == str(made.folder)
    assert left_out.is_loss
    assert f"{name} has {size} bytes, more than the " in left_out.reason
    assert result.lost_something
    assert [report["partition"] for report in result.partitions] == ["orders-0"]
    assert sorted(path.name for path in (tmp_path / "target").glob("orders-*")) == ["orders-0"]
