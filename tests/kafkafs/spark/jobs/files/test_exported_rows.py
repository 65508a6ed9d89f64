"""What `kafkafs export` writes as Parquet, ORC or CSV comes back to the byte, and so does the JSON of earlier exports."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.spark.errors import OptionError
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install '.[spark]'")

from pyspark.sql import functions as F  # noqa: N812

from kafkafs.spark.jobs.files.exported_rows import read_files

AWKWARD: tuple[bytes | None, ...] = (
    None, b"", b"null", b"\\N", b'""', b'"', b"tail\\", b" lead", b"trail ", b"a\nb", b"a\r\nb", b"\x00", b"\x7f",
    b"# no comment", b"a,b", b'{"a":1}', b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbfmark", b"\xf4\x90\x80\x80",
    "Zürich\u2028x\u0085".encode(), bytes(range(256)), b"long " * 50, b"\xff" * 100,
)  # fmt: skip
TIMES = (-1, 0, -2, 1_700_000_000_123, 253_402_300_799_999, -9_223_372_036_854_774)
Rows = list[dict[str, Any]]


def awkward_rows() -> Rows:
    rows: Rows = []
    for value in AWKWARD:
        for key in (value, None):
            place = len(rows)
            headers = [[], [("a", value)], [("a", None), ("a", b""), ('"\n', b"x")]][place % 3]
            rows.append(
                {
                    "key": key,
                    "value": value,
                    "topic": "a.b_c-d",
                    "partition": 0,
                    "offset": place,
                    "timestamp": TIMES[place % len(TIMES)],
                    "timestampType": 0,
                    "headers": headers or None,
                }
            )
    return rows


def written(rows: Rows, log_dir: Path) -> Path:
    """A log dir with these records."""
    log = BuiltLog(log_dir, "a.b_c-d-0")
    batches = [
        batch(
            [
                Rec(
                    row["value"],
                    row["key"],
                    timestamp=row["timestamp"],
                    headers=[(name.encode(), value) for name, value in row["headers"] or []],
                )
            ],
            row["offset"],
        )
        for row in rows
    ]
    log.segment(batches, 0)
    return log_dir


def rows_of(frame: DataFrame) -> Rows:
    found: Rows = frame.withColumn("timestamp", F.unix_millis("timestamp")).toArrow().to_pylist()
    for row in found:
        if row["headers"] is not None:
            row["headers"] = [(each["key"], each["value"]) for each in row["headers"]]
    return sorted(found, key=lambda row: row["offset"])


@pytest.mark.parametrize("form", ["parquet", "orc", "csv"])
def test_awkward_bytes_and_times_come_back(spark: SparkSession, tmp_path: Path, form: str) -> None:
    rows = awkward_rows()
    source = written(rows, tmp_path / "data")
    done = CliRunner().invoke(cli, ["export", str(source), str(tmp_path / "out"), "--format", form])
    assert done.exit_code == 0, done.output
    assert rows_of(read_files(spark, str(tmp_path / "out"), form)) == rows


def _encoded(name: str, data: bytes | None) -> dict[str, str]:
    if data is None:
        return {}
    try:
        return {name: data.decode(), f"{name}Encoding": "text"}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}Encoding": "base64"}


def test_the_json_of_earlier_exports_is_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = awkward_rows()
    lines = []
    for row in rows:
        names = ("partition", "offset", "timestamp", "timestampType")
        line = {name: row[name] for name in names}
        line |= _encoded("key", row["key"]) | _encoded("value", row["value"])
        if row["headers"] is not None:
            line["headers"] = [
                {"key": name, **_encoded("value", value)} for name, value in row["headers"]
            ]
        lines.append(json.dumps(line))
    folder = tmp_path / "topic=a.b_c-d" / "date=2023-11-14"
    folder.mkdir(parents=True)
    (folder / "part-00000.json").write_text("\n".join(lines))
    assert rows_of(read_files(spark, str(tmp_path), "json")) == rows


def test_an_encoding_that_is_none_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "topic=t" / "date=2024-01-01"
    folder.mkdir(parents=True)
    (folder / "x.json").write_text('{"partition":0,"offset":0,"key":"61","keyEncoding":"hex"}\n')
    with pytest.raises(Exception, match="not an encoding of an export: hex"):
        read_files(spark, str(tmp_path), "json").collect()


def test_a_format_that_is_none_is_refused(spark: SparkSession) -> None:
    with pytest.raises(OptionError, match="no such format: 'avro'"):
        read_files(spark, "/", "avro")
