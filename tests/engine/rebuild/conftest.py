"""Rebuilding syncs every file: its tests work in memory where that is possible."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.soak import work_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    folder = work_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
