"""A sample of the hits whose records Spark's tasks must still read. All of it: tests/damage/split_soak.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from tests.damage.split_soak import Soak

HITS = int(os.environ.get("KAFKAFS_SPLIT_HITS", "100"))


def test_tasks_read_all_that_was_not_hit_however_a_log_is_divided(tmp_path: Path) -> None:
    tally = Soak(tmp_path).run(31, range(HITS))
    assert not tally.wrong, "\n".join(tally.wrong)
    assert tally.hits == HITS
    assert tally.records > 100 * HITS
    assert tally.holes > 0
