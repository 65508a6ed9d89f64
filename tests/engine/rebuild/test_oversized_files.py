"""A rebuild as a broker would load it, of files far larger than a broker makes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.rebuild.errors import RebuildFailedError
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.rebuilding import rebuild
from tests import builders
from tests.builders import Rec
from tests.engine.rebuild.made_logs import MadeLog


@pytest.mark.parametrize(
    ("name", "size"),
    [
        (f"{0:020}.index", 100 << 30),
        (f"{0:020}.timeindex", 100 << 30),
        (f"{0:020}.txnindex", 100 << 30),
        (f"{0:020}.snapshot", 100 << 30),
        ("partition.metadata", 3 << 30),
        ("leader-epoch-checkpoint", 3 << 30),
    ],
)
def test_an_oversized_file_is_refused_before_anything_is_copied(
    tmp_path: Path, name: str, size: int
) -> None:
    made = MadeLog(tmp_path / "source")
    made.folder.mkdir(parents=True)
    made.path(0).write_bytes(builders.batch([Rec(b"x")]))
    (made.folder / name).touch()
    os.truncate(made.folder / name, size)
    with pytest.raises(RebuildFailedError, match=f"{name} has {size} bytes, more than the "):
        rebuild(str(made.log_dir), str(tmp_path / "target"), RebuildOptions(mode=Mode.BROKER))
    assert not (tmp_path / "target").exists()
