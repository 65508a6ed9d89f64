"""An export with decode=columns: each topic has the types of its own schemas, which it keeps when it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.kafkafs.evolving_topic import evolving
from tests.schema_truth import schema_log_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from kafkafs.cli import cli
from kafkafs.spark import read
from kafkafs.spark.errors import OptionError
from kafkafs.spark.jobs.export import export
from kafkafs.spark.jobs.files.exported_rows import read_files

CONFLUENT = str(schema_log_dir("schemas-confluent"))
TYPED = ("avro-types", "avro-evolution", "avro-complex", "proto-known", "proto2")
SHOWN = ("offset", "decodedKey", "decodedValue", "keyNote", "valueNote")


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    # As JSON: PySpark cannot collect the year 1 west of Greenwich.
    shown = frame.orderBy("offset").selectExpr(f"to_json(struct({', '.join(SHOWN)})) as text")
    empty = dict.fromkeys(SHOWN)
    return [{**empty, **json.loads(row["text"])} for row in shown.collect()]


def exported(spark: SparkSession, target: Path, topic: str) -> DataFrame:
    return spark.read.parquet(str(target / f"topic={topic}"))


def test_each_topic_has_the_columns_of_its_own_frame(spark: SparkSession, tmp_path: Path) -> None:
    done = export(spark, CONFLUENT, str(tmp_path / "out"), topics=TYPED, decode="columns")
    assert done.untyped == []
    for topic in TYPED:
        frame = read(spark, CONFLUENT, topics=topic, decode="columns")
        found = exported(spark, tmp_path / "out", topic)
        assert found.schema["decodedValue"].dataType == frame.schema["decodedValue"].dataType
        assert rows(found) == rows(frame)
        assert any(row["decodedValue"] is not None for row in rows(found))
    by_topic = {each["topic"]: each["records"] for each in done.facts()["topics"]}
    counted = read(spark, CONFLUENT, topics=TYPED).groupBy("topic").count().collect()
    assert by_topic == {row["topic"]: row["count"] for row in counted}


def test_what_does_not_fit_is_counted_as_kafkafs_export_counts_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    topics = ("proto-keys", "avro-evolution", "python-avro", "json-types")
    job = export(spark, CONFLUENT, str(tmp_path / "job"), topics=topics, decode="columns")
    words = ("-t", ",".join(topics), "--decode", "columns", "--json")
    done = CliRunner().invoke(cli, ["export", CONFLUENT, str(tmp_path / "out"), *words])
    misfits = job.facts()["misfits"]
    assert misfits == json.loads(done.stdout)["misfits"]
    assert misfits.keys() == {"proto-keys", "avro-evolution"}


def test_the_records_come_back_without_the_decoded_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    export(spark, CONFLUENT, str(tmp_path / "out"), topics=TYPED, decode="columns")
    export(spark, CONFLUENT, str(tmp_path / "plain"), topics=TYPED)
    back, plain = (
        read_files(spark, str(tmp_path / name), "parquet").orderBy("topic", "partition", "offset")
        for name in ("out", "plain")
    )
    assert back.collect() == plain.collect()


def test_a_topic_without_types_has_json_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    words = ("-t", "json-types,python-avro", "--decode", "columns", "--json")
    done = CliRunner().invoke(cli, ["spark", "export", CONFLUENT, str(tmp_path / "out"), *words])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["untypedTopics"] == ["json-types"]
    texts = [row["decodedValue"] for row in rows(exported(spark, tmp_path / "out", "json-types"))]
    assert all(json.loads(text) is not None for text in texts if text is not None)
    assert texts != [None] * len(texts)
    typed = exported(spark, tmp_path / "out", "python-avro").select("decodedValue.id").collect()
    assert sorted(row["id"] for row in typed) == [0, 1, 3]


def test_the_command_adds_json_of_named_schemas(spark: SparkSession, tmp_path: Path) -> None:
    words = ("-t", "python-avro", "--decode", "json", "--format", "json", "--schemas")
    for name, schemas in (("own", CONFLUENT), ("none", "none")):
        given = ["spark", "export", CONFLUENT, str(tmp_path / name), *words, schemas]
        done = CliRunner().invoke(cli, given)
        assert done.exit_code == 0, done.output
    own = spark.read.json(str(tmp_path / "own"))
    assert sorted(json.loads(row["decodedValue"])["id"] for row in own.collect()) == [0, 1, 3]
    assert "decodedValue" not in spark.read.json(str(tmp_path / "none")).columns


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"form": "orc"}, "'decode' has columns for parquet"),
    ({"form": "json"}, "'decode' has columns for parquet"),
    ({"topics": "json-types"}, "no schema gives types to keys or values of json-types"),
    ({"schemas": "none"}, "no schema gives types to keys or values of python-avro"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED, ids=[str(given) for given, _ in REFUSED])
def test_what_has_no_columns_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    chosen = {"topics": "python-avro", "decode": "columns", **given}
    with pytest.raises(OptionError, match=said):
        export(spark, CONFLUENT, str(tmp_path / "out"), **chosen)
    assert not (tmp_path / "out").exists()


def test_an_export_that_goes_on_keeps_the_columns_it_began_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "data", tmp_path / "out"
    chosen: dict[str, Any] = {"topics": "orders", "decode": "columns"}
    export(spark, str(evolving(source, is_later=False)), str(target), **chosen)
    evolving(source, is_later=True)
    export(spark, str(source), str(target), resume=True, **chosen)
    found = [row["decodedValue"] for row in rows(exported(spark, target, "orders"))]
    assert found == [{"id": 1}, {"id": 2}]
    export(spark, str(source), str(tmp_path / "anew"), **chosen)
    anew = [row["decodedValue"] for row in rows(exported(spark, tmp_path / "anew", "orders"))]
    assert anew == [{"id": 1, "more": 0}, {"id": 2, "more": 3}]


def test_spark_reads_the_times_that_kafkafs_export_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    words = ("-t", "proto-known", "--decode", "columns")
    done = CliRunner().invoke(cli, ["export", CONFLUENT, str(tmp_path / "out"), *words])
    assert done.exit_code == 0, done.output
    found = exported(spark, tmp_path / "out", "proto-known").where("offset = 1")
    times = found.selectExpr("transform(decodedValue.times, each -> string(each)) times").first()
    assert times is not None
    assert list(times["times"]) == [
        "1970-01-01 00:00:00",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "2000-01-01 00:00:00.000001",
    ]


def test_kafkafs_export_has_other_types_and_does_not_continue_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    target = str(tmp_path / "out")
    export(spark, CONFLUENT, target, topics="python-avro", decode="columns")
    words = ("-t", "python-avro", "--decode", "columns")
    done = CliRunner().invoke(cli, ["export", CONFLUENT, target, *words])
    assert done.exit_code == 2
    assert "resume it with the same settings" in done.stderr
