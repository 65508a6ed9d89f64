"""An export holds every record once, whatever stopped it, and says what it left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from engine.disk.disk import Disk
from tests.builders import Rec, batch
from tests.fixtures_data import copy_of, log_dir, truth_partitions, truth_records
from tests.kafkafs.built_logs import BuiltLog
from tests.schema_truth import schema_log_dir, schema_records
from tests.spark_rows import Seen, by_partition, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq

from kafkafs.cli import cli
from kafkafs.export.target import LocalFiles
from kafkafs.spark.errors import DataLossError, OptionError
from kafkafs.spark.jobs.export import ExportSummary, export
from kafkafs.spark.jobs.files.exported_rows import read_files
from kafkafs.spark.jobs.progress import JobProgress

ORDERS = ["orders-0", "orders-1"]


def truth(kind: str, names: list[str]) -> dict[str, list[Seen]]:
    found = {name: [expected(each) for each in truth_records(kind, name)] for name in names}
    return {name: records for name, records in found.items() if records}


def exported(spark: SparkSession, target: Path | str, form: str) -> dict[str, list[Seen]]:
    return by_partition(read_files(spark, str(target), form).toArrow().to_pylist())


def data_files(target: Path) -> set[str]:
    found = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    return {name for name in found if name.startswith("topic=")}


@pytest.mark.parametrize(("kind", "form"), [("current", "parquet"), ("legacy", "json")])
def test_every_partition_of_a_log_dir_comes_back(
    spark: SparkSession, tmp_path: Path, kind: str, form: str
) -> None:
    target = tmp_path / "out"
    summary = export(spark, str(log_dir(kind)), str(target), form=form)
    names = [
        name
        for name in truth_partitions(kind)
        if not name.startswith("__") and "-delete" not in name
    ]
    wanted = truth(kind, names)
    assert exported(spark, target, form) == wanted
    assert summary.records == sum(map(len, wanted.values()))
    by_topic = {topic["topic"]: topic["records"] for topic in summary.facts()["topics"]}
    for name, records in wanted.items():
        topic = name.rpartition("-")[0]
        of_topic = [each for each in wanted if each.rpartition("-")[0] == topic]
        assert by_topic[topic] == sum(len(wanted[each]) for each in of_topic), records
    sizes = sum((target / name).stat().st_size for name in data_files(target))
    assert summary.facts()["bytesWritten"] == sizes
    assert summary.findings == 0


def test_parquet_has_microseconds_and_days_are_of_utc(spark: SparkSession, tmp_path: Path) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
    try:
        target = tmp_path / "out"
        export(spark, str(log_dir("sample")), str(target), topics="orders", compression="zstd")
        assert spark.conf.get("spark.sql.session.timeZone") == "Pacific/Kiritimati"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    folders = {name.rpartition("/")[0] for name in data_files(target)}
    assert folders == {"topic=orders/date=2023-11-14"}
    file = pq.ParquetFile(target / min(data_files(target)))
    assert file.schema_arrow.field("timestamp").type == pa.timestamp("us", "UTC")
    assert file.schema_arrow.names == [
        *("partition", "offset", "timestamp", "timestampType", "key", "value", "headers"),
    ]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


class Stops(Disk):
    """Fails when a chunk's record is written."""

    def replace_atomically(self, path: Any, data: Any) -> None:
        if str(path).endswith("chunk-000003.json"):
            raise OSError("no space left")
        super().replace_atomically(path, data)


def test_fault_145_what_failed_midway_goes_on_and_repeats_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = str(log_dir("sample")), tmp_path / "out"
    told: list[JobProgress] = []
    with monkeypatch.context() as patch:
        patch.setattr(
            "kafkafs.spark.jobs.export.target_files",
            lambda _spark, path: LocalFiles(path, Stops()),
        )
        with pytest.raises(OSError, match="no space left"):
            export(
                spark, source, str(target), form="csv", chunk_bytes=100_000, on_progress=told.append
            )
    assert not (target / "_SUCCESS").exists()
    half = data_files(target)
    assert {name.rpartition("/")[2][:12] for name in half} == {"chunk-000001", "chunk-000002"}
    summary = export(spark, source, str(target), form="csv", chunk_bytes=100_000, resume=True)
    assert half < data_files(target)
    assert exported(spark, target, "csv") == truth("current", [*ORDERS, "txn-0"])
    assert (target / "_SUCCESS").exists()
    assert summary.facts()["recordsBefore"] + summary.records == 2613
    steps = {each.step: each.share for each in told}
    assert set(steps) - {"chunk 3 of 5"} == {"chunk 1 of 5", "chunk 2 of 5"}
    assert 0.3 < steps["chunk 2 of 5"] < 0.6


def test_an_export_goes_on_with_what_the_logs_have_got_since(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = copy_of("sample", tmp_path, ["orders-0", "orders-1"])
    target = tmp_path / "out"
    later = [*source.glob("orders-0/*790.*"), *source.glob("orders-0/*1000.snapshot")]
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in later:
        shutil.move(path, aside)
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        (source / name).unlink()
    first = export(spark, str(source), str(target), form="orc")
    assert [len(each) for each in exported(spark, target, "orc").values()] != [1000, 1000]
    for path in aside.iterdir():
        shutil.move(path, source / "orders-0")
    second = export(spark, str(source), str(target), form="orc", resume=True)
    assert exported(spark, target, "orc") == truth("current", ORDERS)
    assert (first.records, second.records) == (1790, 210)
    third = export(spark, str(source), str(target), form="orc", resume=True)
    assert third.records == 0
    assert third.facts()["recordsBefore"] == 2000

    metadata = source / "orders-0" / "partition.metadata"
    before = metadata.read_text()
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg\n")
    anew = (
        r"topic orders was deleted and created again since it was exported \(topic id"
        r" sgf5MsZgRTuEMv68ZXKJbQ before, AAAAAAAAAAAAAAAAAAAAAg now\)"
    )
    with pytest.raises(DataLossError, match=anew):
        export(spark, str(source), str(target), form="orc", resume=True)
    metadata.write_text(before)

    for path in (source / "orders-0").glob("*790.*"):
        path.unlink()
    with pytest.raises(DataLossError, match="offset was changed from 1000 to 790"):
        export(spark, str(source), str(target), form="orc", resume=True)


def hurt(tmp_path: Path) -> Path:
    """A copy of orders-0 with one byte changed in a value."""
    source = copy_of("sample", tmp_path, ["orders-0"])
    path = source / "orders-0" / "00000000000000000395.log"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return source


def test_damage_stops_an_export_or_is_listed(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(hurt(tmp_path)), tmp_path / "out"
    with pytest.raises(Exception, match="checksum is wrong"):
        export(spark, source, str(target), form="json")
    assert data_files(target) == set()
    summary = export(spark, source, str(target), form="json", onCorrupt="skip", resume=True)
    wanted = truth("current", ["orders-0"])["orders-0"]
    found = exported(spark, target, "json")["orders-0"]
    missing = [record for record in wanted if record not in found]
    assert [record for record in wanted if record in found] == found
    assert 0 < len(missing) < 20
    assert summary.findings == summary.damaged == 1
    (file,) = (target / "_export" / "damage").iterdir()
    (line,) = file.read_text().splitlines()
    place = json.loads(json.loads(line)["damage"])
    assert place["file"].endswith("orders-0/00000000000000000395.log")
    assert [place["firstOffset"], place["lastOffset"]] == [missing[0][0], missing[-1][0]]


def test_conditions_and_keys_choose_records(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(log_dir("sample")), tmp_path / "out"
    wheres: dict[str, Any] = {"where": "partition = 0 and length(value) > 80", "keyPattern": "^k1"}
    summary = export(spark, source, str(target), form="json", topics="orders", **wheres)
    wanted = [
        record
        for record in truth("current", ["orders-0"])["orders-0"]
        if len(record[4]) > 80 and record[3].startswith(b"k1")  # type: ignore[arg-type,attr-defined]
    ]
    assert exported(spark, target, "json") == {"orders-0": wanted}
    assert summary.records == len(wanted) > 0
    with pytest.raises(OptionError, match="keyPattern"):
        export(spark, source, str(target), form="json", topics="orders", resume=True)


def test_a_target_that_hadoop_reaches_is_written_alike(spark: SparkSession, tmp_path: Path) -> None:
    target = f"file:{tmp_path}/out"
    summary = export(spark, str(log_dir("sample")), target, topics="txn", form="json")
    assert summary.target == target
    assert exported(spark, target, "json") == truth("current", ["txn-0"])
    again = export(spark, str(log_dir("sample")), target, topics="txn", form="json", resume=True)
    assert (again.records, again.facts()["recordsBefore"]) == (0, summary.records)
    with pytest.raises(OptionError, match="begun with form 'json', not 'csv'"):
        export(spark, str(log_dir("sample")), target, form="csv", resume=True)
    with pytest.raises(OptionError, match="nowhere"):
        export(spark, str(log_dir("sample")), "nowhere://host/out")


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"form": "avro"}, "no such format: 'avro'"),
    ({"values": "hex"}, "values are text or base64"),
    ({"where": "partitoin = 1"}, "partitoin"),
    ({"where": "partition ="}, "condition is not valid"),
    ({"view": "batches"}, "this job has no option 'view'"),
    ({"includeHeaders": True}, "this job has no option 'includeHeaders'"),
    ({"splitByte": "1m"}, "unknown option 'splitbyte'"),
    ({"topics": "nothing"}, "UnknownTopicOrPartitionException"),
    ({"topics": "orders", "partitions": {"orders": [0]}}, "give one"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_cannot_be_is_one_error_and_writes_nothing(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        export(spark, str(log_dir("sample")), str(tmp_path / "out"), **given)
    assert not (tmp_path / "out").exists()


def test_targets_that_are_taken_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = copy_of("sample", tmp_path, ["orders-0"])
    for target, said in ((source / "out", "inside each other"), (tmp_path, "inside each other")):
        with pytest.raises(OptionError, match=said):
            export(spark, str(source), str(target))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(OptionError, match="is not empty"):
        export(spark, str(source), str(tmp_path / "full"))
    with pytest.raises(OptionError, match="the target is empty"):
        export(spark, str(source), " ")


def test_nothing_to_export_is_an_empty_export(spark: SparkSession, tmp_path: Path) -> None:
    source = str(log_dir("current"))
    summary = export(spark, source, str(tmp_path / "out"), topics="empty", form="csv")
    assert isinstance(summary, ExportSummary)
    assert summary.records == 0
    assert exported(spark, tmp_path / "out", "csv") == {}
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize("kind", ["current", "legacy"])
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_kafkafs_export_writes_the_files_that_the_job_writes(
    spark: SparkSession, tmp_path: Path, kind: str, form: str
) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    export(spark, str(log_dir(kind)), str(theirs), form=form)
    done = CliRunner().invoke(cli, ["export", str(log_dir(kind)), str(mine), "--format", form])
    assert done.exit_code == 0, done.output
    assert exported(spark, mine, form) == exported(spark, theirs, form)
    folders = [{name.rpartition("/")[0] for name in data_files(each)} for each in (mine, theirs)]
    assert folders[0] == folders[1]
    if form == "parquet":
        schemas = [
            {pq.read_schema(each / name).remove_metadata() for name in data_files(each)}
            for each in (mine, theirs)
        ]
        assert schemas[0] == schemas[1]
    else:
        lines = [
            sorted(
                tuple(map(repr, row))
                for name in data_files(each)
                for row in spark.read.csv(str(each / name), header=True, escape='"').collect()
            )
            for each in (mine, theirs)
        ]
        assert lines[0] == lines[1]


def test_folders_are_named_as_the_job_names_them(spark: SparkSession, tmp_path: Path) -> None:
    stamps = [
        -1,
        -2,
        0,
        1_700_000_000_000,
        253_402_300_800_000,
        -62_167_219_200_001,
        9_000_000_000_000_000,
    ]
    batches = [batch([Rec(b"v", timestamp=each)], place) for place, each in enumerate(stamps)]
    for name in ("a=b-0", "50%-0", "{it's} [^]-0", "é-0"):
        BuiltLog(tmp_path / "data", name).segment(batches, 0)
    export(spark, str(tmp_path / "data"), str(tmp_path / "theirs"))
    done = CliRunner().invoke(cli, ["export", str(tmp_path / "data"), str(tmp_path / "mine")])
    assert done.exit_code == 0, done.output
    mine, theirs = (
        {name.rpartition("/")[0] for name in data_files(tmp_path / each)}
        for each in ("mine", "theirs")
    )
    assert mine == theirs
    assert len(mine) == 4 * len(stamps)


def test_the_job_and_kafkafs_export_continue_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    log = BuiltLog(source)
    log.segment([batch([Rec(b"a")], 0)], 0)
    export(spark, str(source), str(target))
    log.append(batch([Rec(b"b")], 1))
    arguments = ["export", str(source), str(target), "--json"]
    done = CliRunner().invoke(cli, arguments)
    assert json.loads(done.stdout)["records"] == 1
    log.append(batch([Rec(b"c")], 2))
    assert export(spark, str(source), str(target), resume=True).records == 1
    rows = exported(spark, target, "parquet")["orders-0"]
    assert [row[4] for row in rows] == [b"a", b"b", b"c"]


def test_decoded_values_stand_beside_the_bytes(spark: SparkSession, tmp_path: Path) -> None:
    source, target = str(schema_log_dir("schemas-confluent")), tmp_path / "lake"
    export(spark, source, str(target), form="json", topics="avro-evolution", decode=True)
    rows = [
        json.loads(line)
        for path in sorted(target.rglob("*.json"))
        if "topic=avro-evolution" in str(path)
        for line in path.read_text().splitlines()
    ]
    records = schema_records("schemas-confluent", "avro-evolution")
    truths = {record.offset: record.value_truth for record in records}
    assert len(rows) == len(records)
    for row in rows:
        truth = truths[row["offset"]]
        assert truth is not None
        assert json.loads(row["decodedValue"]) == truth.value
        assert json.loads(row["valueSchema"])["id"] == truth.id
    with pytest.raises(OptionError, match="'decode' is for parquet, orc and json"):
        export(spark, source, str(tmp_path / "csv"), form="csv", decode=True)
