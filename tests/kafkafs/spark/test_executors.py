"""Tasks on executors: their order, their errors, the logs that they name, and hosts that see other log dirs."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from engine.check.log_dir_check import CheckOptions, PartitionDone, SourceCheck
from engine.check.rules.finding import Finding
from engine.errors import DamagedFileError
from engine.log.log_directory import LogSource, open_source
from engine.log.partition_log import PartitionLog
from engine.log.view.log_view import LogView
from tests.engine.check.logs import plain, write
from tests.fixtures_data import log_dir

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.errors import PySparkException

from kafkafs.cli.options.executors import failure_of
from kafkafs.spark.checking import checked
from kafkafs.spark.executors import Executors
from kafkafs.spark.source.planning.volume import NotVisibleError, Volume
from kafkafs.table.splits.log_dir_owners import check_visible


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log dir of two partitions."""
    for name in ("orders-0", "sound-0"):
        write(tmp_path / "data" / name, {0: [plain(0)], 10: [plain(10)]})
    return tmp_path / "data"


def executors_of(spark: SparkSession, root: Path) -> tuple[Executors, LogSource]:
    source = open_source(str(root))
    return Executors(spark, "tests", source, [str(root)]), source


def doubled(number: int) -> Iterator[int]:
    yield from (number, number)


def told(item: PartitionLog | LogView) -> Iterator[tuple[str, int]]:
    view = item if isinstance(item, LogView) else item.view()
    yield view.name, view.log_end_offset


def failing(number: int) -> Iterator[int]:
    yield number
    raise DamagedFileError("it is no number", path="numbers", position=number)


def one(_: object) -> int:
    return 1


@pytest.mark.parametrize("task_bytes", [1, 1 << 30])
def test_results_come_in_the_order_of_the_items(
    spark: SparkSession, root: Path, task_bytes: int
) -> None:
    executors, _ = executors_of(spark, root)
    found = list(executors.flat_map(doubled, range(20), one, task_bytes))
    assert found == [number for number in range(20) for _ in range(2)]
    assert list(executors.flat_map(doubled, [], one, 1)) == []


def test_items_are_taken_on_demand_and_who_has_enough_leaves_no_job(
    spark: SparkSession, root: Path
) -> None:
    executors, _ = executors_of(spark, root)
    taken: list[int] = []
    results = executors.flat_map(
        doubled, (taken.append(each) or each for each in range(999)), one, 1
    )
    assert next(results) == 0
    results.close()
    assert len(taken) < 20
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_logs_and_views_are_those_of_the_host(spark: SparkSession) -> None:
    executors, source = executors_of(spark, log_dir("current"))
    logs = list(source.partitions().values())
    wanted = [(log.name, log.view().log_end_offset) for log in logs]
    assert list(executors.flat_map(told, logs, one, 1 << 30)) == wanted
    views = (log.view() for log in logs)
    assert list(executors.flat_map(told, views, one, 1 << 30)) == wanted


def test_an_error_of_a_task_is_raised_as_it_is_after_the_results_before_it(
    spark: SparkSession, root: Path
) -> None:
    executors, _ = executors_of(spark, root)
    results = executors.flat_map(failing, [3, 4], one, 1 << 30)
    assert next(results) == 3
    with pytest.raises(DamagedFileError, match="it is no number") as caught:
        next(results)
    assert (caught.value.path, caught.value.position) == ("numbers", 3)


def test_a_partition_that_a_host_does_not_find_is_a_finding(
    spark: SparkSession, root: Path
) -> None:
    executors, source = executors_of(spark, root)
    logs = list(source.partitions().values())
    shutil.rmtree(root / "sound-0")
    check = SourceCheck(source, CheckOptions(fingerprints=True))
    events = list(checked(executors, check, logs))
    found = [(each.partition, each.rule) for each in events if isinstance(each, Finding)]
    assert ("sound-0", "file-unreadable") in found
    done = [each.partition for each in events if isinstance(each, PartitionDone)]
    assert done == ["orders-0"]


def test_the_conclusion_reads_no_segment_again(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_here(*_: object, **__: object) -> None:
        raise AssertionError("a segment was read by the command")

    monkeypatch.setattr("kafkafs.spark.checking.TASK_BYTES", 1)
    monkeypatch.setattr("engine.check.segment_look.items_of", not_here)
    executors, source = executors_of(spark, root)
    logs = list(source.partitions().values())
    check = SourceCheck(source, CheckOptions(counts=True))
    events = list(checked(executors, check, logs))
    assert not any(isinstance(each, Finding) and each.severity == "error" for each in events)
    counted = [each.statistics for each in events if hasattr(each, "statistics")]
    assert [len(each.segments) for each in counted] == [2, 2]


# -- what a host sees


def test_a_task_that_does_not_see_the_path_says_so_with_host_and_path(
    spark: SparkSession, root: Path, tmp_path: Path
) -> None:
    executors, _ = executors_of(spark, root)
    read = spark.read.format("kafkalog").option("failOnDataLoss", "false").load(str(root))
    assert read.rdd.getNumPartitions() > 0  # planned
    root.rename(tmp_path / "unmounted")
    root.mkdir()
    sentence = f"host {socket.gethostname()} cannot read {root}"
    with pytest.raises(NotVisibleError, match=sentence):
        list(executors.flat_map(doubled, [1], one, 1))
    with pytest.raises(PySparkException) as caught:
        read.collect()
    assert failure_of(caught.value)[0].startswith(sentence)


def test_a_host_without_the_path_is_named_with_it(root: Path, tmp_path: Path) -> None:
    missing = Volume((str(tmp_path / "elsewhere"),), (None,))
    with pytest.raises(
        NotVisibleError, match=f"host {socket.gethostname()} cannot read .*elsewhere"
    ):
        missing.open()
    source = open_source(str(root))
    opened = Volume.of([str(root)], source).open()
    assert opened.partitions().keys() == source.partitions().keys()


def test_another_brokers_log_dir_under_the_same_path_is_refused(root: Path) -> None:
    properties = root / "meta.properties"
    properties.write_text(
        "version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    volume = Volume.of([str(root)], open_source(str(root)))
    volume.open().close()
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(NotVisibleError, match=r"sees another log dir at .*node 1.*node 2"):
        volume.open()


def test_a_partition_that_is_gone_from_a_log_dir_is_no_matter_of_the_host(root: Path) -> None:
    check_visible(str(root / "gone-0"))
    check_visible(str(root / "orders-0" / f"{10:020}.log"))
