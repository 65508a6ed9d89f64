"""An audit finds what the check of the engine finds, however its tasks divide the volume."""

# ruff: noqa: E402 - what is imported last needs PySpark

from __future__ import annotations

import json
import pickle
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from engine.check.rules.finding import Finding
from engine.log.log_directory import open_source
from tests import fixtures_data
from tests.engine.check.logs import NOW, Clock, change, log_of, look, plain, write

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")
pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.errors import PySparkException

from engine.errors import SourceError
from kafkafs.cli.spark.audit import audit as command
from kafkafs.cli.spark.job import failure_of
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs import audit as auditing
from kafkafs.spark.jobs.audit_plan import AuditPlan, Unit, plan_audit
from kafkafs.spark.jobs.audit_tasks import SEEN, AuditTasks
from kafkafs.spark.source.planning.volume import NotVisibleError, Volume
from kafkafs.table.splits.log_dir_owners import check_visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def planned(path: Path, task_bytes: int, topic: str | None = None) -> AuditPlan:
    """The plan of an audit."""
    source = open_source(str(path))
    volume = Volume.of([str(path)], source)
    return plan_audit(source, volume, topic=topic, task_bytes=task_bytes)


def run(plan: AuditPlan) -> list[dict[str, Any]]:
    """What the tasks of a plan give, run here one after the other as Spark would."""
    tasks = AuditTasks(plan.volume, plan.topic, NOW)
    seen: list[dict[str, Any]] = []
    for units in plan.tasks:
        batch = pa.RecordBatch.from_pylist([{"units": pickle.dumps(units)}])
        seen += [row for found in tasks.look([batch]) for row in found.to_pylist()]
    events: list[dict[str, Any]] = []
    for bucket in range(plan.buckets):
        mine = [row for row in seen if row["bucket"] % plan.buckets == bucket]
        mine.sort(key=lambda row: (row["partition"], row["segment"], row["number"]))
        batches = [pa.RecordBatch.from_pylist([row], schema=SEEN) for row in mine]
        events += [row for found in tasks.conclude(batches) for row in found.to_pylist()]
    return events


def shown(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Findings as `Finding.to_json` has them, sorted."""
    found = []
    for row in rows:
        if row.get("rule") is None:
            continue
        known = {name: value for name, value in row.items() if value is not None}
        for name in ("topic", "number", "summary"):
            known.pop(name, None)
        if isinstance(known.get("facts"), str):
            known["facts"] = json.loads(known["facts"])
        found.append(known)
    return sorted(found, key=_in_order)


def expected(findings: list[Finding]) -> list[dict[str, Any]]:
    """The same of findings."""
    return sorted(
        (json.loads(json.dumps(each.to_json(), default=str)) for each in findings), key=_in_order
    )


def _in_order(finding: dict[str, Any]) -> str:
    return json.dumps(finding, sort_keys=True)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log dir with a sound partition, and one of three segments with damage in the second."""
    root = tmp_path_factory.mktemp("audit") / "data"
    write(root / "sound-0", {0: [plain(0)]})
    folder = write(
        root / "orders-0", {0: [plain(0), plain(5)], 10: [plain(10), plain(15)], 20: [plain(20)]}
    )
    change(log_of(folder, 10), lambda data: data.__setitem__(70, data[70] ^ 1))
    return root


# -- the tasks, without Spark


@pytest.mark.parametrize("task_bytes", [1, 1 << 30], ids=["a segment a task", "one task"])
@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_the_tasks_find_what_the_check_finds(kind: str, task_bytes: int) -> None:
    path = fixtures_data.log_dir(kind)
    findings, summaries = look(path)
    events = run(planned(path, task_bytes))
    assert shown(events) == expected(findings)
    partitions = {row["partition"]: json.loads(row["summary"]) for row in events if row["summary"]}
    assert list(partitions) == [row["partition"] for row in events if row["summary"]]
    assert {name: each["records"] for name, each in partitions.items()} == {
        each.partition: each.records for each in summaries
    }
    assert {name: each["errors"] for name, each in partitions.items()} == {
        each.partition: each.found["error"] for each in summaries
    }


def test_a_large_partition_is_looked_at_by_several_tasks(damaged: Path) -> None:
    plan = planned(damaged, 1)
    parts = [unit for task in plan.tasks for unit in task if unit.partition == "orders-0"]
    assert [unit.segments for unit in parts] == [(0,), (10,), (20,)]
    assert all(len(task) == 1 for task in plan.tasks)
    whole = planned(damaged, 1 << 20)
    assert [unit.partition for task in whole.tasks for unit in task] == ["", "orders-0", "sound-0"]
    assert len(whole.tasks) == 2


def test_what_a_task_looked_at_is_not_read_again_by_the_one_that_concludes(damaged: Path) -> None:
    plan = planned(damaged, 1)
    tasks = AuditTasks(plan.volume, plan.topic, NOW)
    rows = [
        row
        for units in plan.tasks
        for found in tasks.look([pa.RecordBatch.from_pylist([{"units": pickle.dumps(units)}])])
        for row in found.to_pylist()
        if row["partition"] == b"orders-0"
    ]
    log = log_of(damaged / "orders-0", 10)
    before = log.read_bytes()
    try:
        change(log, lambda data: data.__setitem__(70, data[70] ^ 1))  # sound again
        rows.sort(key=lambda row: (row["segment"], row["number"]))
        batch = pa.RecordBatch.from_pylist(rows, schema=SEEN)
        events = [row for found in tasks.conclude([batch]) for row in found.to_pylist()]
    finally:
        log.write_bytes(before)
    assert "batch-checksum" in {row["rule"] for row in events}


def test_a_topic_pattern_matches_as_a_whole(damaged: Path) -> None:
    names = {unit.partition for task in planned(damaged, 1, "order.").tasks for unit in task}
    assert names == {"", "orders-0"}
    with pytest.raises(OptionError, match=r"no folder below .* of a topic that matches 'order'"):
        planned(damaged, 1, "order")
    with pytest.raises(OptionError, match="not a regular expression"):
        planned(damaged, 1, "(")


def test_a_partition_that_a_host_does_not_find_is_a_finding(damaged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "data"
    shutil.copytree(damaged, copy)
    plan = planned(copy, 1 << 20)
    shutil.rmtree(copy / "sound-0")
    rules = {(row["partition"], row["rule"]) for row in run(plan)}
    assert ("sound-0", "file-unreadable") in rules


def test_names_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write(root / "orders-0", {0: [plain(0)]})
    (root / "orders-0" / "not\udce4s.log").write_bytes(b"")
    files = {row["file"] for row in run(planned(root, 1 << 20)) if row["file"]}
    assert any("not\\xe4s.log" in file for file in files)


# -- the volume


def test_a_host_without_the_path_is_named_with_it(damaged: Path, tmp_path: Path) -> None:
    source = open_source(str(damaged))
    missing = Volume((str(tmp_path / "elsewhere"),), (None,))
    with pytest.raises(
        NotVisibleError, match=f"host {socket.gethostname()} cannot read .*elsewhere"
    ):
        missing.open()
    assert (
        Volume.of([str(damaged)], source).open().partitions().keys() == source.partitions().keys()
    )


def test_another_brokers_log_dir_under_the_same_path_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "data"
    write(root / "orders-0", {0: [plain(0)]})
    properties = root / "meta.properties"
    properties.write_text(
        "version=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
    )
    volume = Volume.of([str(root)], open_source(str(root)))
    volume.open().close()
    properties.write_text(properties.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(NotVisibleError, match=r"sees another log dir at .*node 1.*node 2"):
        volume.open()


# -- in Spark


def test_an_audit_in_spark_finds_the_same(
    spark: SparkSession, damaged: Path, tmp_path: Path
) -> None:
    findings, summaries = look(damaged)
    told: list[float] = []
    target = tmp_path / "tables"
    found = auditing.audit(
        spark,
        str(damaged),
        str(target),
        task_bytes=1,
        clock=Clock(),
        form="json",
        on_progress=lambda progress: told.append(progress.share),
    )
    assert shown(list(found.first)) == expected(findings)
    assert [each["partition"] for each in found.partitions] == ["orders-0", "sound-0"]
    assert sum(each["records"] for each in found.partitions) == sum(s.records for s in summaries)
    assert found.findings == sum(each.severity != "note" for each in findings) > 0
    assert told[-1] == 1.0
    tables = {name: _lines(target / name) for name in ("findings", "partitions")}
    assert shown(tables["findings"]) == expected(findings)
    assert {row["partition"]: row["errors"] for row in tables["partitions"]} == {
        "orders-0": 1,
        "sound-0": 0,
    }


def _lines(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("part-*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_findings_are_a_frame(spark: SparkSession, damaged: Path) -> None:
    frame = auditing.findings(spark, str(damaged), clock=Clock())
    rows = [row.asDict() for row in frame.collect()]
    assert shown(rows) == expected(look(damaged)[0])
    assert {row["topic"] for row in rows if row["partition"]} == {"orders"}


def test_a_task_that_does_not_see_the_path_says_so_with_host_and_path(
    spark: SparkSession, damaged: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(damaged, root)
    frame = auditing.findings(spark, str(root))
    read = spark.read.format("kafkalog").option("failOnDataLoss", "false").load(str(root))
    assert read.rdd.getNumPartitions() > 0  # planned
    root.rename(tmp_path / "unmounted")
    root.mkdir()
    sentence = f"host {socket.gethostname()} cannot read {root}"
    for asked in (frame, read):
        with pytest.raises(PySparkException) as caught:
            asked.collect()
        assert failure_of(caught.value)[0].startswith(sentence)
    with pytest.raises(SourceError):
        check_visible(str(root / "orders-0"))


def test_a_partition_that_is_gone_from_a_log_dir_is_no_matter_of_the_host(damaged: Path) -> None:
    check_visible(str(damaged / "gone-0"))
    check_visible(str(log_of(damaged / "orders-0", 10)))


def test_the_command_prints_what_was_found_and_exits_with_1(
    spark: SparkSession, damaged: Path
) -> None:
    done = CliRunner().invoke(command, [str(damaged), "--severity", "error", "--json"])
    facts = json.loads(done.stdout)
    assert done.exit_code == 1
    assert facts["errors"] == 1
    assert [each["rule"] for each in facts["findings"]] == ["batch-checksum"]
    assert facts["partitions"] == 2
    assert facts["records"] == 25


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Path]:
    """A folder that is not empty."""
    (tmp_path / "here").write_text("something")
    return tmp_path


def test_bad_input_is_refused_before_any_task_starts(
    spark: SparkSession, damaged: Path, filled: Path
) -> None:
    path = str(damaged)
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup())
    with pytest.raises(OptionError, match="not empty"):
        auditing.audit(spark, path, str(filled))
    with pytest.raises(OptionError, match="no rule is called 'batch-crc'"):
        auditing.audit(spark, path, rules=["batch-crc"])
    with pytest.raises(OptionError, match="no severity is called 'bad'"):
        auditing.audit(spark, path, severity="bad")
    with pytest.raises(OptionError, match="no such format: 'xml'"):
        auditing.audit(spark, path, form="xml")
    with pytest.raises(OptionError, match="a number above 0"):
        auditing.audit(spark, path, task_bytes=0)
    with pytest.raises(OptionError, match="nothing matches"):
        auditing.audit(spark, f"{path}/nothing-*")
    with pytest.raises(SourceError):
        auditing.audit(spark, f"{path}/nothing")
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) == jobs


def test_a_unit_is_small_when_it_travels() -> None:
    unit = Unit("orders-0", "orders", tuple(range(100)), 1 << 30)
    assert len(pickle.dumps(unit)) < 1000
