"""decode=columns: decoded keys and values in Spark's types of a topic's schemas, fixed when a frame is made."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

import kafkafs
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.spark.streaming.conftest import look_each_time
from tests.kafkafs.spark.streaming.engine_calls import EARLIEST, Query
from tests.schema_records import NOW, schema_record, tombstone
from tests.schema_truth import schema_log_dir
from tests.spark_session import spark

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install '.[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from kafkafs.forms.arrow.errors import UndecodableRecordError
from kafkafs.spark import read
from kafkafs.spark.data_source import KafkaLogDataSource, KafkaLogReader
from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["look_each_time", "spark"]

CONFLUENT = schema_log_dir("schemas-confluent")
TOPICS = (
    "avro-complex", "avro-evolution", "avro-garbage", "avro-headers", "avro-primitives", "avro-references",
    "avro-types", "deleted-version", "reused-id",
)  # fmt: skip
OTHERS = (
    "avro-logical", "avro-logical-new", "avro-tree", "proto-types", "proto-known", "proto-any", "proto2",
)  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def source_of(path: Path, topic: str, **options: str) -> KafkaLogDataSource:
    return KafkaLogDataSource(
        {"path": str(path), "subscribe": topic, "decode": "columns", **options}
    )


def rows_of(source: KafkaLogDataSource, schema: StructType | None = None) -> list[dict[str, Any]]:
    """The rows, read as Spark reads them: each task with a copy of the reader."""
    reader = source.reader(schema or source.schema())
    copy = pickle.loads(pickle.dumps(reader))
    assert isinstance(copy, KafkaLogReader)
    batches = [batch for task in reader.partitions() for batch in copy.read(task)]
    wanted = to_arrow_schema(schema or source.schema(), timezone="UTC")
    assert all(batch.schema.equals(wanted) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="strict")]


@pytest.mark.parametrize("topic", TOPICS)
def test_columns_are_those_of_a_scan(topic: str) -> None:
    rows = rows_of(source_of(CONFLUENT, topic))
    with kafkafs.open(CONFLUENT) as opened:
        scan = opened.scan(topic, decode="columns").to_arrow()
    wanted = scan.to_pylist(maps_as_pydicts="strict")
    for name in ("key", "value"):
        decoded, note = f"decoded{name.title()}", f"{name}Note"
        if note not in scan.schema.names:
            continue
        assert [row[note] for row in rows] == [row[note] for row in wanted]
        for row, other in zip(rows, wanted, strict=True):
            shown = other[name]
            if topic == "avro-complex" and shown is not None:
                shown = {**shown, "empty": "{}"}
            assert row[decoded] == shown
    # Each value of this topic has a subject of its own, of no naming strategy.
    assert topic == "avro-primitives" or any(row["decodedValue"] is not None for row in rows)


def test_types_that_spark_lacks_are_text_or_wider() -> None:
    source = source_of(CONFLUENT, "avro-logical")
    column = source.schema()["decodedValue"].dataType
    assert isinstance(column, StructType)
    fields = {each.name: each.dataType.simpleString() for each in column}
    assert fields["timeMicros"] == "string"
    assert fields["span"] == "struct<months:bigint,days:bigint,milliseconds:bigint>"
    assert fields["atMillis"] == "timestamp"
    assert fields["localMicros"] == "timestamp_ntz"
    row = rows_of(source)[2]["decodedValue"]
    assert row["timeMicros"] == "23:59:59.999999"
    assert row["span"]["months"] == 2**32 - 1


def test_a_mapping_chooses_the_message_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "messages.toml"
    path.write_text("[topics.proto-keys]\nvalue = { message = 'NoPackage.In' }\n")
    usual, chosen = (
        [
            row["decodedValue"]
            for row in rows_of(source_of(CONFLUENT, "proto-keys", schemas=schemas))
        ]
        for schemas in ("auto", f"auto,{path}")
    )
    assert [value is None for value in usual] == [value is not None for value in chosen]
    assert {"b": True} in chosen
    path.write_text("[topics.proto-keys]\nvalue = { message = 'Out' }\n")
    with pytest.raises(OptionError, match=r"'schemas': .*: the schema has no message Out"):
        source_of(CONFLUENT, "proto-keys", schemas=f"auto,{path}").schema()


def test_keys_without_a_schema_stay_json() -> None:
    assert source_of(CONFLUENT, "python-avro").schema()["decodedKey"].dataType == StringType()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"subscribe": "python-avro,avro-types"},
            r"these are 2 \(avro-types, python-avro\): name it",
        ),
        ({"subscribe": "json-types"}, "use decode='true' for JSON"),
        ({"subscribe": "python-avro", "schemas": "none"}, "no schema gives types"),
        ({"subscribe": "python-avro", "mask": "policy.toml"}, "is not for 'mask'"),
        ({"subscribe": "python-avro", "decode": "struct"}, "is one of false, true, columns"),
        ({"subscribe": "python-avro", "view": "batches"}, "is for view='records'"),
    ],
)
def test_what_has_no_types_is_refused_when_the_frame_is_made(
    options: dict[str, str], reason: str
) -> None:
    source = KafkaLogDataSource({"path": str(CONFLUENT), "decode": "columns", **options})
    with pytest.raises(OptionError, match=reason):
        source.schema()


def test_all_topics_are_too_many() -> None:
    source = KafkaLogDataSource({"path": str(CONFLUENT), "decode": "columns"})
    with pytest.raises(OptionError, match=r"has the types of one topic, and these are [0-9]+ "):
        source.schema()


def test_what_does_not_fit_ends_the_query_if_asked() -> None:
    with pytest.raises(UndecodableRecordError) as failed:
        rows_of(source_of(CONFLUENT, "avro-evolution", decodeMode="failfast"))
    assert str(failed.value) == (
        "avro-evolution-0 offset 0: the value does not decode: the value does not fit the column:"
        " field id: type int is not read as string"
    )
    whole = rows_of(source_of(CONFLUENT, "python-avro"))
    assert rows_of(source_of(CONFLUENT, "python-avro", decodeMode="failfast")) == whole


def test_the_schemas_of_values_are_read_if_they_are_asked_for() -> None:
    source = source_of(CONFLUENT, "avro-evolution")
    schema = source.schema()
    assert "valueSchema" not in schema.names
    rows = rows_of(source, schema.add("valueSchema", StringType()))
    versions = [json.loads(row["valueSchema"])["version"] for row in rows]
    assert len(set(versions)) > 1
    assert any(row["decodedValue"] is not None for row in rows)


def test_columns_are_read_alone_and_in_any_order() -> None:
    source = source_of(CONFLUENT, "python-avro")
    schema = source.schema()
    chosen = StructType([schema["decodedValue"], schema["offset"]])
    whole = rows_of(source)
    assert rows_of(source, chosen) == [
        {name: row[name] for name in ("decodedValue", "offset")} for row in whole
    ]
    notes = StructType([schema["valueNote"]])
    garbage = source_of(CONFLUENT, "avro-garbage")
    assert rows_of(garbage, notes) == [{"valueNote": row["valueNote"]} for row in rows_of(garbage)]


# -- schemas that change


def a_record(**types: str) -> str:
    fields = [{"name": name, "type": each, "default": 0} for name, each in types.items()]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


FIRST, SECOND = a_record(id="long"), a_record(id="long", more="int")


def framed(schema: str, id_: int, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(schema), value)
    return b"\x00" + id_.to_bytes(4, "big") + out.getvalue()


def test_a_frame_keeps_its_columns_when_a_newer_schema_comes(tmp_path: Path) -> None:
    registry = BuiltLog(tmp_path, "_schemas-0")
    registry.segment([batch([schema_record(id_=1, schema=FIRST)], 0, base_timestamp=NOW)], 0)
    orders = BuiltLog(tmp_path, "orders-0")
    orders.segment([batch([Rec(framed(FIRST, 1, {"id": 1}))], 0)], 0)
    source = source_of(tmp_path, "orders")
    schema = source.schema()
    second = schema_record(version=2, id_=2, schema=SECOND, timestamp=NOW + 9)
    registry.append(batch([second], 1, base_timestamp=NOW + 9))
    orders.append(batch([Rec(framed(SECOND, 2, {"id": 2, "more": 3}))], 1))
    assert [row["decodedValue"] for row in rows_of(source, schema)] == [{"id": 1}, {"id": 2}]
    again = source_of(tmp_path, "orders")
    assert [row["decodedValue"] for row in rows_of(again)] == [
        {"id": 1, "more": 0},
        {"id": 2, "more": 3},
    ]


def test_types_that_no_schema_ever_gave_are_refused() -> None:
    wanted = StructType([StructField("decodedValue", StructType([StructField("id", LongType())]))])
    with pytest.raises(OptionError, match="no schemas of 'python-avro' have these types"):
        source_of(CONFLUENT, "python-avro").reader(wanted)


@pytest.mark.usefixtures("look_each_time")
def test_a_stream_keeps_its_columns_when_a_newer_schema_comes(tmp_path: Path) -> None:
    registry = BuiltLog(tmp_path, "_schemas-0")
    registry.segment([batch([schema_record(id_=1, schema=FIRST)], 0, base_timestamp=NOW)], 0)
    orders = BuiltLog(tmp_path, "orders-0")
    orders.segment([batch([Rec(framed(FIRST, 1, {"id": 1}))], 0)], 0)
    query = Query(orders.log_dir, **EARLIEST, subscribe="orders", decode="columns")
    run = query.run()
    assert run.all() == 1
    second = schema_record(version=2, id_=2, schema=SECOND, timestamp=NOW + 9)
    gone = tombstone(timestamp=NOW + 10)
    registry.append(batch([second, gone], 1, base_timestamp=NOW + 9))
    orders.append(batch([Rec(framed(SECOND, 2, {"id": 2, "more": 3})), Rec(b"text")], 1))
    assert run.all() == 1
    assert [(row["decodedValue"], row["valueNote"]) for row in query.rows] == [
        ({"id": 1}, None),
        ({"id": 2}, None),
        (None, "the bytes name no schema"),
    ]


def test_a_time_that_spark_cannot_hold_is_null_with_a_note(tmp_path: Path) -> None:
    kind = {"type": "long", "logicalType": "timestamp-millis"}
    schema = json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": "at", "type": ["null", kind]}]}
    )
    registry = BuiltLog(tmp_path, "_schemas-0")
    registry.segment([batch([schema_record(id_=1, schema=schema)], 0)], 0)
    orders = BuiltLog(tmp_path, "orders-0")
    values = [1, 2**62, None]
    orders.segment([batch([Rec(framed(schema, 1, {"at": each})) for each in values], 0)], 0)
    rows = rows_of(source_of(tmp_path, "orders"))
    assert [row["decodedValue"] for row in rows] == [
        {"at": EPOCH.replace(microsecond=1000)},
        {"at": None},
        {"at": None},
    ]
    assert [row["valueNote"] is None for row in rows] == [True, False, True]
    assert rows[1]["valueNote"].startswith("a time does not fit the column: ")
    with pytest.raises(UndecodableRecordError, match="orders-0 offset 1"):
        rows_of(source_of(tmp_path, "orders", decodeMode="failfast"))


# -- in Spark itself


def test_sql_reaches_into_structs_and_files_have_them(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, str(CONFLUENT), topics="python-avro", decode="columns")
    found = frame.selectExpr("decodedValue.id", "decodedValue.amount", "decodedValue.tags['a'] a")
    wanted = [
        (row["decodedValue"]["id"], row["decodedValue"]["amount"], row["decodedValue"]["tags"]["a"])
        for row in rows_of(source_of(CONFLUENT, "python-avro"))
    ]
    assert [tuple(row) for row in found.orderBy("id").collect()] == wanted
    frame.write.parquet(str(tmp_path / "lake"))
    assert (
        spark.read.parquet(str(tmp_path / "lake")).where("decodedValue.amount > 12.5").count() == 1
    )
    chosen = read(
        spark, str(CONFLUENT), topics="python-avro", decode="columns", columns=["decodedValue"]
    )
    assert chosen.schema == frame.select("decodedValue").schema


@pytest.mark.parametrize("topic", [*TOPICS, *OTHERS])
def test_spark_takes_each_type(topic: str, spark: SparkSession) -> None:
    frame = read(spark, str(CONFLUENT), topics=topic, decode="columns")
    rows = frame.selectExpr("to_json(struct(decodedKey, decodedValue)) text").collect()
    texts = [json.loads(row.text) for row in rows]
    given = rows_of(source_of(CONFLUENT, topic))
    assert [text.get("decodedValue") is None for text in texts] == [
        row["decodedValue"] is None for row in given
    ]


def test_a_stream_has_structs(spark: SparkSession, tmp_path: Path) -> None:
    from kafkafs.spark import KafkaLogDataSource as Source

    spark.dataSource.register(Source)
    stream = (
        spark.readStream.format("kafkalog")
        .options(subscribe="python-avro", decode="columns", startingOffsets="earliest")
        .load(str(CONFLUENT))
        .selectExpr("decodedValue.id", "decodedValue.amount")
    )
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    assert query.awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("id").collect()
    assert [row.id for row in found] == [0, 1, 3]
