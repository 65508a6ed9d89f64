"""What a record line shows as JSON is JSON in every table; a time that a form cannot hold is null there, and costs nothing else."""

from __future__ import annotations

import csv
import datetime
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from click.testing import CliRunner

import kafkafs
from kafkafs.cli import cli
from tests.builders import Rec, batch
from tests.kafkafs.built_logs import BuiltLog

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")
pytest.importorskip("duckdb", reason="duckdb is not installed: pip install '.[sql]'")

import pyarrow.parquet as pq  # noqa: E402

BYTES: list[bytes | None] = [
    b'{"city":"Oslo","n":1}', b'[1,2,{"a":null}]', b' \n{ "a" : 1.50 , "b" : [ ] }\r\n', b"{}", b"[]",
    '{"city":"Z\u00fcrich","hidden":"\u202e\x7f"}'.encode(), b'{"big":123456789012345678901234567890.10}',
    b'{"a":1,"a":2}', b"[" * 128 + b"]" * 128, b"[" * 129 + b"]" * 129, b'{"a":' + b"1" * 4301 + b"}",
    b"text", b"17", b'"quoted"', b"true", b"null", b"", None, b"{", b'{"a":1} x', b'{"a":1}{"b":2}', b"{'a':1}",
    b"[NaN]", b'{"a":"\xff"}', b"\xff\xfe", b"\0\0\0\0\7rest", b"\xef\xbb\xbf{}", b'["\\ud800"]', b'{"\\u0000":1}',
]  # fmt: skip
"""Keys and values of all kinds: JSON, what is nearly JSON, text, and bytes."""
NEITHER = "the bytes are neither text nor JSON, and name no schema"
COLUMNS = ["key", "value", "decodedKey", "decodedValue", "keyNote", "valueNote"]

Form = Callable[[Path, list[str]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("json")
    records = [Rec(value, key) for key, value in zip(BYTES, reversed(BYTES), strict=True)]
    BuiltLog(folder).segment([batch(records[:10], 0), batch(records[10:], 10)], 0)
    return folder


def run(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert done.exit_code == code, done.output
    return done.stdout


def by_scan(source: Path, columns: list[str], **more: Any) -> list[dict[str, Any]]:
    with kafkafs.open(source, **more) as opened:
        rows: list[dict[str, Any]] = opened.scan("orders", columns=columns).to_arrow().to_pylist()
    return rows


def quoted(name: str) -> str:
    return f'"{name}"'


def by_sql(source: Path, columns: list[str], *more: object) -> list[dict[str, Any]]:
    text = run(
        "sql",
        f'select {", ".join(map(quoted, columns))} from orders order by "offset"',
        source,
        "--json",
        *more,
    )
    return [json.loads(line) for line in text.splitlines()]


def numbered(table: Any) -> list[dict[str, Any]]:
    """The rows, with times as numbers: Python has none after the year 9999."""
    place = table.schema.get_field_index("timestamp")
    if place >= 0:
        table = table.set_column(place, "timestamp", table.column(place).cast(pa.int64()))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def exported(form: str, source: Path, columns: list[str], *more: object) -> list[dict[str, Any]]:
    target = source.parent / f"{source.name}-{form}-{len(more)}-{'-'.join(columns)}"
    run("export", source, target, "--format", form, "--columns", ",".join(columns), *more)
    found: list[dict[str, Any]] = []
    for path in sorted(target.rglob("*part-*")):
        if form == "parquet":
            found += numbered(pq.ParquetFile(path).read())
        elif form == "arrow":
            found += numbered(pa.ipc.open_file(path).read_all())
        elif form == "avro":
            with open(path, "rb") as file:
                found += list(fastavro.reader(file))
        else:
            csv.field_size_limit(sys.maxsize)
            with open(path, newline="", encoding="utf-8") as file:
                found += [
                    {name: text or None for name, text in row.items()}
                    for row in csv.DictReader(file)
                ]
    return found


FORMS: dict[str, Form] = {
    "scan": by_scan,
    "sql": by_sql,
    "sql json": lambda source, columns: by_sql(source, columns, "--decode", "json"),
    **{
        form: lambda source, columns, form=form: exported(form, source, columns)
        for form in ("parquet", "arrow", "avro", "csv")
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_what_the_line_shows_as_json_is_json_in_every_form(source: Path, form: str) -> None:
    lines = [json.loads(line) for line in run("cat", source, "orders-0/offset/0..").splitlines()]
    texts = run("cat", source, "orders-0/offset/0..").splitlines()
    rows = FORMS[form](source, COLUMNS)
    assert len(rows) == len(lines) == len(BYTES)
    seen = 0
    for line, text, row in zip(lines, texts, rows, strict=True):
        for side in ("key", "value"):
            shown, note = row[f"decoded{side.title()}"], row[f"{side}Note"]
            encoding = line.get(f"{side}Encoding")
            if encoding == "json":
                assert shown is not None
                assert f'"{side}":{shown},' in text  # digit for digit
                seen += 1
            else:
                assert shown is None
            assert note == line.get(f"{side}Note", NEITHER if encoding == "base64" else None)
    assert seen == 2 * 10


def test_a_member_of_a_value_is_counted_by_sql(source: Path) -> None:
    query = "select count(*) n from orders where decodedValue->>'city' = 'Oslo'"
    assert json.loads(run("sql", query, source, "--json")) == {"n": 1}


@pytest.mark.parametrize("form", ["scan", "sql", "parquet"])
def test_json_in_a_table_is_masked_as_in_the_line(source: Path, tmp_path: Path, form: str) -> None:
    policy = tmp_path / "mask.toml"
    policy.write_text(
        '[[rules]]\ntopics = ["orders"]\nfields = { ".value.city" = { replace = \'{"x":1}\' }, ".key" = { replace = \'{"x":1}\' } }\n'
    )
    lines = [json.loads(line) for line in
             run("cat", source, "orders-0/offset/0..", "--mask", policy).splitlines()]  # fmt: skip
    rows = {
        "scan": lambda: by_scan(source, COLUMNS, mask=policy),
        "sql": lambda: by_sql(source, COLUMNS, "--mask", policy),
        "parquet": lambda: exported("parquet", source, COLUMNS, "--mask", policy),
    }[form]()
    for line, row in zip(lines, rows, strict=True):
        assert row["decodedKey"] is None
        is_json = line.get("valueEncoding") == "json"
        shown = row["decodedValue"]
        assert (None if shown is None else json.loads(shown)) == (
            line["value"] if is_json else None
        )
    assert (
        sum(row["decodedValue"] is not None for row in rows) == 7
    )  # objects: others are masked whole


# Times

NANOS = 1_700_000_000_123_456_789
TIMES = [
    1_700_000_000_123,
    NANOS,
    2**63 - 1,
    -(2**63),
    -1,
    0,
    (2**63 - 1) // 1000,
    (2**63 - 1) // 1000 + 1,
]
"""Timestamps as a producer may write them: one in nanoseconds, the bounds of int64 and of microseconds."""
HELD = (2**63 - 1) // 1000


@pytest.fixture(scope="module")
def times(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("times")
    log = BuiltLog(folder)
    log.segment([batch([Rec(b"v", timestamp=each)], at) for at, each in enumerate(TIMES)], 0)
    return folder


@pytest.mark.parametrize("form", FORMS)
def test_a_time_that_a_form_cannot_hold_keeps_its_number(times: Path, form: str) -> None:
    rows = FORMS[form](times, ["timestampMillis", "offset"])
    rows.sort(key=lambda row: int(row["offset"]))
    assert [int(row["timestampMillis"]) for row in rows] == TIMES


@pytest.mark.parametrize("form", ["parquet", "arrow", "sql"])
def test_a_time_that_a_form_cannot_hold_is_null_and_all_else_goes_on(
    times: Path, form: str
) -> None:
    rows = FORMS[form](times, ["offset", "timestamp", "value"])
    rows.sort(key=lambda row: row["offset"])
    assert [row["value"] for row in rows] == ["v" if form == "sql" else b"v"] * len(TIMES)
    is_null = [row["timestamp"] is None for row in rows]
    without = form == "sql"  # there -1 is null, as in the record line; files of Spark have it
    assert is_null == [abs(each) > HELD or (without and each == -1) for each in TIMES]


def test_an_export_counts_the_times_that_are_null(times: Path, tmp_path: Path) -> None:
    facts = json.loads(run("export", times, tmp_path / "out", "--json"))
    assert facts["untimed"] == {"orders": 4}
    assert facts["records"] == len(TIMES)
    text = run("export", times, tmp_path / "text")
    assert "orders: 4 timestamps, which are null; the column timestampMillis has them" in text


@pytest.mark.parametrize("query", [
    "select count(*) n, max(timestamp) from orders", "select timestamp from orders", "select * from orders",
    "select min(timestamp) from orders",
])  # fmt: skip
def test_sql_on_timestamps_tells_which_are_null(times: Path, query: str) -> None:
    done = CliRunner().invoke(cli, ["sql", query, str(times), "--json"])
    assert done.exit_code == 0
    assert "timestamps are null, which DuckDB does not hold; timestampMillis has" in done.stderr


def test_a_record_of_python_has_no_time_where_none_is_possible(times: Path) -> None:
    with kafkafs.open(times) as opened:
        records = list(opened["orders", 0])
    assert [record.timestamp for record in records] == TIMES
    first = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, datetime.UTC)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert [record.time for record in records] == [first, None, None, None, None, epoch, None, None]
