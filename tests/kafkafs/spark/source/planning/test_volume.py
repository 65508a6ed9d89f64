"""A task reads the log dir that the driver planned for, and no other that it sees under the path."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

import pyarrow as pa

from kafkafs.spark.source.options.read_options import ReadOptions, parse_options
from kafkafs.spark.source.planning.batch_plan import plan_batch
from kafkafs.spark.source.planning.volume import NotVisibleError
from kafkafs.spark.source.rows import SplitReader
from tests.fixtures_data import log_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkafs.table.splits.split import Split

RECORDS = 2000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(log_dir("sample"), tmp_path / "data"))


def count(splits: Iterable[Split], options: ReadOptions) -> int:
    reader = SplitReader(pa.schema([("offset", pa.int64())]), options)
    return sum(batch.num_rows for split in splits for batch in reader.read(split))


def copied_anew(root: Path) -> None:
    """The same bytes in other files, as a snapshot mounted in place of the one before."""
    aside = root.with_name("aside")
    root.rename(aside)
    shutil.copytree(aside, root)


def planned(root: Path) -> Iterable[tuple[ReadOptions, list[Split]]]:
    options = parse_options({"path": str(root), "subscribe": "orders"})
    return [(options, plan_batch(options))]


def test_other_files_of_the_same_broker_are_read(root: Path) -> None:
    plans = planned(root)
    copied_anew(root)
    assert [count(splits, options) for options, splits in plans] == [RECORDS]


def test_another_brokers_log_dir_is_refused(root: Path) -> None:
    plans = planned(root)
    copied_anew(root)
    file = root / "meta.properties"
    file.write_text(re.sub(r"node.id=\d+", "node.id=77", file.read_text()))
    for options, splits in plans:
        with pytest.raises(NotVisibleError, match=r"sees another log dir at .*node 77"):
            count(splits, options)


def test_what_nobody_owns_is_read_wherever_it_lies(root: Path) -> None:
    (root / "meta.properties").unlink()
    plans = planned(root)
    copied_anew(root)
    assert [count(splits, options) for options, splits in plans] == [RECORDS]
