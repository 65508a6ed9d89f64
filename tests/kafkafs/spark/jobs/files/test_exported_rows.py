"""What is written as Parquet, ORC, JSON or CSV comes back to the byte."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkafs.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StructField, StructType

from kafkafs.spark.jobs.files.exported_rows import files_writer, read_files
from kafkafs.spark.source.columns import CONNECTOR, HEADERS

AWKWARD: tuple[bytes | None, ...] = (
    None, b"", b"null", b"\\N", b'""', b'"', b"tail\\", b" lead", b"trail ", b"a\nb", b"a\r\nb", b"\x00", b"\x7f",
    b"# no comment", b"a,b", b'{"a":1}', b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbfmark", b"\xf4\x90\x80\x80",
    "Zürich\u2028x\u0085".encode(), bytes(range(256)), b"long " * 50, b"\xff" * 100,
)  # fmt: skip
TIMES = (-1, 0, -2, 1_700_000_000_123, 253_402_300_799_999, -9_223_372_036_854_774)
NO_DAY = "date=__HIVE_DEFAULT_PARTITION__"
Rows = list[dict[str, Any]]


def awkward_rows() -> Rows:
    rows: Rows = []
    for value in AWKWARD:
        for key in (value, None):
            place = len(rows)
            headers = [None, [("a", value)], [("a", None), ("a", b""), ('"\n', b"x")]][place % 3]
            rows.append(
                {
                    "key": key,
                    "value": value,
                    "topic": ("123", "a.b_c-d")[place % len(TIMES) % 2],
                    "partition": place % 3,
                    "offset": place,
                    "timestamp": TIMES[place % len(TIMES)],
                    "timestampType": (0, 1, -1)[place % 3],
                    "headers": headers,
                }
            )
    return rows


def frame_of(spark: SparkSession, rows: Rows) -> DataFrame:
    fields = [
        StructField(name, LongType() if name == "timestamp" else kind)
        for name, kind in CONNECTOR.items()
    ]
    schema = StructType([*fields, StructField("headers", HEADERS)])
    frame = spark.createDataFrame(
        [tuple(row[name] for name in schema.names) for row in rows], schema
    )
    return frame.withColumn("timestamp", F.timestamp_millis("timestamp")).coalesce(1)


def rows_of(frame: DataFrame) -> Rows:
    found: Rows = frame.withColumn("timestamp", F.unix_millis("timestamp")).toArrow().to_pylist()
    for row in found:
        if row["headers"] is not None:
            row["headers"] = [(each["key"], each["value"]) for each in row["headers"]]
    return sorted(found, key=lambda row: row["offset"])


def write(frame: DataFrame, form: str, folder: Path, values: str = "text") -> None:
    files_writer(frame, form, values).save(str(folder))


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("parquet", "text"), ("orc", "text"), ("json", "text"), ("json", "base64"), ("csv", "text"),
    ],
)  # fmt: skip
def test_awkward_bytes_and_times_come_back(
    spark: SparkSession, tmp_path: Path, form: str, values: str
) -> None:
    rows = awkward_rows()
    write(frame_of(spark, rows), form, tmp_path / "out", values)
    assert rows_of(read_files(spark, str(tmp_path / "out"), form)) == rows
    assert len(list((tmp_path / "out" / "topic=123" / NO_DAY).glob("part-*"))) == 1


def test_python_reads_what_json_and_csv_say(spark: SparkSession, tmp_path: Path) -> None:
    rows = [row for row in awkward_rows() if row["timestamp"] == TIMES[3]]
    for row in rows:
        row["topic"] = "t"
    frame = frame_of(spark, rows)
    lines = []
    for form in ("json", "csv"):
        write(frame, form, tmp_path / form)
        (folder,) = (tmp_path / form / "topic=t").iterdir()
        assert folder.name == "date=2023-11-14"
        (file,) = folder.glob("part-*")
        lines.append(file.read_bytes().decode())
    by_json = [json.loads(line) for line in lines[0].split("\n") if line]
    by_csv = list(csv.DictReader(lines[1].split("\n")))
    for row, one, other in zip(rows, by_json, by_csv, strict=True):
        assert one["time"] == other["time"] == "2023-11-14T22:13:20.123Z"
        for name in ("key", "value"):
            found = one.get(name), one.get(f"{name}Encoding")
            if row[name] is None:
                assert found == (None, None)
            elif _is_text(row[name]):
                assert found == (row[name].decode(), "text")
            else:
                assert found[1] == "base64"
            assert bool(other[f"{name}Encoding"]) == (row[name] is not None)


def test_an_encoding_that_is_none_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "topic=t" / "date=2024-01-01"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text('{"partition":0,"offset":0,"key":"61","keyEncoding":"hex"}\n')
    with pytest.raises(Exception, match="not an encoding of an export: hex"):
        read_files(spark, str(tmp_path), "json").collect()


def test_a_format_that_is_none_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="no such format: 'avro'"):
        read_files(spark, "/", "avro")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
