"""decode: columns of decoded keys and values, in tasks that have the schemas from the driver."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkafs.schemas.sources.fixed_schemas import FixedSchemas
from tests.builders import Rec, batch
from tests.fixtures_data import log_dir
from tests.kafkafs.built_logs import BuiltLog
from tests.schema_records import write_topic
from tests.schema_truth import schema_log_dir, schema_records
from tests.spark_session import spark

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install '.[spark]'")

from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from kafkafs.forms.arrow.errors import UndecodableRecordError
from kafkafs.spark import read
from kafkafs.spark.data_source import KafkaLogDataSource, KafkaLogReader
from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark"]

CONFLUENT = schema_log_dir("schemas-confluent")


def rows_of(path: Path, **options: str) -> list[dict[str, Any]]:
    """The rows, read as Spark reads them: each task with a copy of the reader."""
    source = KafkaLogDataSource({"path": str(path), "onCorrupt": "fail", **options})
    reader = source.reader(source.schema())
    copy = pickle.loads(pickle.dumps(reader))
    assert isinstance(copy, KafkaLogReader)
    return [
        row
        for task in reader.partitions()
        for batch in copy.read(task)
        for row in batch.to_pylist()
    ]


def test_a_value_stands_beside_its_json_its_schema_and_its_note() -> None:
    rows = rows_of(CONFLUENT, subscribe="avro-evolution", decode="true")
    records = schema_records("schemas-confluent", "avro-evolution")
    assert [row["value"] for row in rows] == [record.value for record in records]
    for row, record in zip(rows, records, strict=True):
        truth = record.value_truth
        assert truth is not None
        assert json.loads(row["decodedValue"]) == truth.value
        schema = json.loads(row["valueSchema"])
        assert (schema["id"], schema["subject"]) == (truth.id, "avro-evolution-value")
        assert row["valueNote"] is None


def test_what_does_not_decode_is_null_with_a_note() -> None:
    rows = rows_of(CONFLUENT, subscribe="avro-garbage", decode="true")
    failed = {row["valueNote"] for row in rows if row["decodedValue"] is None}
    assert {"the schema id 999999 is not known", "a size is -4, at byte 1"} <= failed
    assert all(row["value"] is not None for row in rows)


def test_what_does_not_decode_ends_the_query_if_asked() -> None:
    with pytest.raises(UndecodableRecordError) as failed:
        rows_of(CONFLUENT, subscribe="avro-garbage", decode="true", decodeMode="FAILFAST")
    assert str(failed.value) == (
        "avro-garbage-0 offset 1: the value does not decode: 4 bytes are stated, 3 are left,"
        " at byte 1"
    )
    rows = rows_of(CONFLUENT, subscribe="avro-evolution", decode="true", decodeMode="failfast")
    assert rows == rows_of(CONFLUENT, subscribe="avro-evolution", decode="true")


def test_tasks_need_no_registrys_topic(tmp_path: Path) -> None:
    copied = tmp_path / "data"
    shutil.copytree(CONFLUENT, copied)
    source = KafkaLogDataSource({"path": str(copied), "subscribe": "avro-types", "decode": "true"})
    reader = source.reader(source.schema())
    assert isinstance(reader, KafkaLogReader)
    tasks = reader.partitions()
    shutil.rmtree(copied / "_schemas-0")
    found = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
    # The topic's last records have the schema of another subject, as their notes say.
    assert [row["decodedValue"] is not None for row in found] == [
        row["value"] is not None and row["valueNote"] is None for row in found
    ]
    assert sum(row["decodedValue"] is not None for row in found) == 8


def test_schemas_may_come_from_another_path(tmp_path: Path) -> None:
    shutil.copytree(CONFLUENT / "avro-types-0", tmp_path / "avro-types-0")
    alone = rows_of(tmp_path, decode="true")
    assert not any(row["decodedValue"] for row in alone)
    given = rows_of(tmp_path, decode="true", schemas=str(CONFLUENT))
    whole = rows_of(CONFLUENT, subscribe="avro-types", decode="true")
    assert [row["decodedValue"] for row in given] == [row["decodedValue"] for row in whole]
    assert any(row["decodedValue"] for row in given)


def test_internal_topics_are_decoded_without_schemas() -> None:
    rows = rows_of(
        log_dir("current"), subscribe="__consumer_offsets", decode="true", schemas="none"
    )
    said = [json.loads(row["decodedKey"]) for row in rows if row["decodedKey"]]
    assert said
    assert all(set(each) >= {"type", "data"} for each in said)


def test_decoded_columns_can_be_chosen_and_need_the_option() -> None:
    source = KafkaLogDataSource({"path": str(CONFLUENT), "subscribe": "avro-types"})
    wanted = StructType([StructField("decodedValue", StringType())])
    with pytest.raises(OptionError, match="column 'decodedValue' needs decode='true'"):
        source.reader(wanted)
    with pytest.raises(OptionError, match="'schemas' is for decode='true'"):
        rows_of(CONFLUENT, schemas="none")


def test_a_query_without_decoded_columns_reads_no_schemas() -> None:
    options = {"path": str(CONFLUENT), "decode": "true"}
    reader = KafkaLogDataSource(options).reader(StructType([StructField("offset", LongType())]))
    assert isinstance(reader, KafkaLogReader)
    assert reader._options.decoder_of is None


def test_schemas_are_passed_on_with_their_states() -> None:
    source = KafkaLogDataSource({"path": str(CONFLUENT), "decode": "true"})
    reader = source.reader(source.schema())
    assert isinstance(reader, KafkaLogReader)
    known = getattr(reader._options.decoder_of, "__self__", None)
    assert isinstance(known, FixedSchemas)
    assert known.store is not None
    copy = pickle.loads(pickle.dumps(known))
    assert [(each.name, each.text, each.is_gone) for each in copy.store.schemas] == [
        (each.name, each.text, each.is_gone) for each in known.store.schemas
    ]
    assert copy.store.settings == known.store.settings


def test_sql_reaches_into_the_decoded_values(spark: SparkSession) -> None:
    frame = read(spark, str(CONFLUENT), topics="avro-evolution", decode=True)
    found = frame.selectExpr(
        "get_json_object(valueSchema, '$.version') version", "decodedValue"
    ).collect()
    records = schema_records("schemas-confluent", "avro-evolution")
    truths = [record.value_truth for record in records if record.value_truth is not None]
    assert [json.loads(row.decodedValue) for row in found] == [truth.value for truth in truths]
    assert len({row.version for row in found}) > 1


def test_json_without_a_schema_is_decoded_too(tmp_path: Path) -> None:
    values = [b'{"city": "Oslo"}', b"text", b"\xff", None]
    BuiltLog(tmp_path).segment([batch([Rec(each, b"[1]") for each in values], 0)], 0)
    rows = rows_of(tmp_path, subscribe="orders", decode="true")
    assert [row["decodedValue"] for row in rows] == ['{"city":"Oslo"}', None, None, None]
    assert [row["decodedKey"] for row in rows] == ["[1]"] * len(values)
    neither = "the bytes are neither text nor JSON, and name no schema"
    assert [row["valueNote"] for row in rows] == [None, None, neither, None]


def test_a_time_beyond_microseconds_is_null_and_its_number_is_there(tmp_path: Path) -> None:
    times = [1_700_000_000_123, 1_700_000_000_123_456_789, -(2**63)]
    batches = [batch([Rec(b"v", timestamp=each)], at) for at, each in enumerate(times)]
    BuiltLog(tmp_path).segment(batches, 0)
    reader = KafkaLogDataSource({"path": str(tmp_path), "subscribe": "orders"}).reader(
        StructType([StructField("timestamp", TimestampType()), StructField("timestampMillis", LongType())])
    )  # fmt: skip
    rows = [
        row
        for task in reader.partitions()
        for made in reader.read(task)
        for row in made.to_pylist()
    ]
    assert [row["timestampMillis"] for row in rows] == times
    assert [row["timestamp"] is None for row in rows] == [False, True, True]


def test_a_key_is_text_as_the_lines_of_its_topic_show_it(tmp_path: Path) -> None:
    write_topic(tmp_path, [Rec(b"a", bytes([0, 42])), Rec(b"b", b"42")], name="numbers-0")
    write_topic(tmp_path, [Rec(b"c", bytes([0, 42])), Rec(b"d", b"42")], name="texts-0")
    mapping = tmp_path / "types.toml"
    mapping.write_text('[topics.numbers]\nkey = { type = "int16" }\n')
    found = rows_of(tmp_path, keyEquals="42", schemas=str(mapping))
    assert [row["value"] for row in found] == [b"a", b"d"]
    with pytest.raises(OptionError, match="'keyEquals': 'x' is no key of numbers"):
        rows_of(tmp_path, keyEquals="x", schemas=str(mapping), subscribe="numbers")
