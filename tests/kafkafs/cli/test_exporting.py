"""`kafkafs export` writes each record once, says what it left out, and continues where it stopped."""

from __future__ import annotations

import base64
import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from tests.builders import Rec, batch
from tests.fixtures_data import copy_of, log_dir, truth_partitions, truth_records
from tests.kafkafs.built_logs import DAY_MS, START_MS, BuiltLog
from tests.spark_rows import Seen, expected

SAMPLE = log_dir("sample")
FORMATS = ("parquet", "csv", "jsonl", "avro", "arrow")
CSV_TIMESTAMP_TYPES = {"-1": 0, "0": 1, "1": 2}
csv.field_size_limit(1 << 30)


def export(source: Path | str, target: Path, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["export", str(source), str(target), *map(str, arguments)])


def data_files(target: Path) -> list[Path]:
    return sorted(
        path for folder in target.glob("topic=*") for path in folder.rglob("*") if path.is_file()
    )


def contents(target: Path) -> dict[str, bytes]:
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in data_files(target)}


# -- files as the official readers of the formats read them


def of_arrow(table: pa.Table) -> Iterator[tuple[int, Seen]]:
    milliseconds = table["timestamp"].cast(pa.int64()).to_pylist()
    for row, timestamp in zip(table.drop(["timestamp"]).to_pylist(), milliseconds, strict=True):
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
        kind = CSV_TIMESTAMP_TYPES[str(row["timestampType"])]
        yield (
            row["partition"],
            (row["offset"], kind, timestamp // 1000, row["key"], row["value"], headers),
        )


def parquet_rows(path: Path) -> Iterator[tuple[int, Seen]]:
    return of_arrow(pq.ParquetFile(path).read())


def arrow_rows(path: Path) -> Iterator[tuple[int, Seen]]:
    return of_arrow(pa.ipc.open_file(path).read_all())


def avro_rows(path: Path) -> Iterator[tuple[int, Seen]]:
    with path.open("rb") as file:
        for row in fastavro.reader(file):
            headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())
            kind = CSV_TIMESTAMP_TYPES[str(row["timestampType"])]
            is_time = row["timestamp"] >= 0
            assert (row["time"] is not None) == is_time
            if is_time:
                assert round(row["time"].timestamp() * 1000) == row["timestamp"]
            yield (
                row["partition"],
                (row["offset"], kind, row["timestamp"], row["key"], row["value"], headers),
            )


def in_bytes(text: str | None, encoding: str | None) -> bytes | None:
    if not encoding:
        return None
    return (text or "").encode() if encoding == "text" else base64.b64decode(text or "")


def csv_rows(path: Path) -> Iterator[tuple[int, Seen]]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, strict=True):
            headers = tuple(
                (each["key"], in_bytes(each.get("value"), each.get("valueEncoding")))
                for each in json.loads(row["headers"] or "[]")
            )
            key = in_bytes(row["key"], row["keyEncoding"])
            value = in_bytes(row["value"], row["valueEncoding"])
            kind = CSV_TIMESTAMP_TYPES[row["timestampType"]]
            yield (
                int(row["partition"]),
                (int(row["offset"]), kind, int(row["timestamp"]), key, value, headers),
            )


READERS: dict[str, Callable[[Path], Iterator[tuple[int, Seen]]]] = {
    "parquet": parquet_rows,
    "arrow": arrow_rows,
    "avro": avro_rows,
    "csv": csv_rows,
}


def exported(target: Path, form: str) -> dict[str, list[Seen]]:
    found: dict[str, list[Seen]] = {}
    for path in data_files(target):
        topic = path.relative_to(target).parts[0].removeprefix("topic=")
        for partition, row in READERS[form](path):
            found.setdefault(f"{topic}-{partition}", []).append(row)
    return {name: sorted(rows, key=lambda row: row[0]) for name, rows in found.items()}  # type: ignore[arg-type,return-value]


def truth(kind: str, *, committed: bool = False) -> dict[str, list[Seen]]:
    names = [name for name in truth_partitions(kind) if not name.startswith("__")]
    found = {
        name: [expected(each) for each in truth_records(kind, name, committed)] for name in names
    }
    return {name: rows for name, rows in found.items() if rows}


@pytest.mark.parametrize("committed", [False, True], ids=["all", "committed"])
@pytest.mark.parametrize("form", [form for form in FORMATS if form != "jsonl"])
@pytest.mark.parametrize("kind", ["current", "legacy"])
def test_each_format_has_the_records_that_a_consumer_got(
    tmp_path: Path, kind: str, form: str, committed: bool
) -> None:
    options = ["--committed"] if committed else []
    done = export(log_dir(kind), tmp_path / "out", "--format", form, "--json", *options)
    assert done.exit_code == 0, done.output
    wanted = truth(kind, committed=committed)
    assert exported(tmp_path / "out", form) == wanted
    facts = json.loads(done.stdout)
    files = data_files(tmp_path / "out")
    assert facts["records"] == sum(map(len, wanted.values()))
    assert facts["files"] == len(files)
    assert facts["bytesWritten"] == sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("kind", ["current", "legacy", "schemas-confluent"])
def test_jsonl_has_the_lines_that_cat_prints_of_the_same_records(tmp_path: Path, kind: str) -> None:
    source, target = log_dir(kind), tmp_path / "out"
    assert export(source, target, "--format", "jsonl").exit_code == 0
    lines = sorted(
        line for path in data_files(target) for line in path.read_bytes().splitlines(keepends=True)
    )
    topics = ",".join(sorted({each["topic"] for each in map(json.loads, lines)}))
    shown = CliRunner().invoke(cli, ["cat", str(source), "--topic", topics])
    wanted = [
        line
        for line in shown.stdout_bytes.splitlines(keepends=True)
        if not {"control", "belowLogStart"} & set(json.loads(line))
    ]
    assert lines == sorted(wanted)
    assert lines


def test_duckdb_reads_the_folders_as_columns(tmp_path: Path) -> None:
    assert export(SAMPLE, tmp_path / "out").exit_code == 0
    rows = duckdb.sql(
        'select topic, date::varchar, count(*), min("offset"), max("offset")'
        f" from read_parquet('{tmp_path}/out/*/*/*.parquet', hive_partitioning = true)"
        " group by all order by all"
    ).fetchall()
    assert rows == [
        ("orders", "2023-11-14", 2000, 0, 999),
        ("txn", "2024-01-11", 613, 0, rows[1][4]),
    ]


# -- what stays when an export stops


CHUNKS = ("--chunk-size", "60000", "--jobs", "2")


def test_the_same_command_goes_on_after_a_kill_and_gives_the_same_files(tmp_path: Path) -> None:
    whole, target = tmp_path / "whole", tmp_path / "out"
    assert export(SAMPLE, whole, *CHUNKS).exit_code == 0
    kills = 0
    for after in range(1, 6):
        process = subprocess.Popen(
            [sys.executable, "-m", "kafkafs", "export", str(SAMPLE), str(target), *CHUNKS],
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and len(list(target.glob("_export/chunk-*.json"))) < after:
            time.sleep(0.002)
        kills += process.poll() is None
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
        assert set(contents(target).items()) <= set(contents(whole).items())
    assert kills
    done = export(SAMPLE, target, *CHUNKS, "--json")
    assert done.exit_code == 0, done.output
    assert contents(target) == contents(whole)
    facts = json.loads(done.stdout)
    assert facts["records"] + facts["recordsBefore"] == 2613
    assert not list(target.glob("_export/staging-*"))


def test_a_finished_export_goes_on_with_newer_records(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment([batch([Rec(b"a"), Rec(b"b")], 0)], 0)
    assert export(tmp_path / "data", tmp_path / "out").exit_code == 0
    assert json.loads(export(tmp_path / "data", tmp_path / "out", "--json").stdout)["records"] == 0
    log.append(batch([Rec(b"c")], 2))
    done = export(tmp_path / "data", tmp_path / "out", "--json")
    assert [json.loads(done.stdout)[name] for name in ("records", "recordsBefore")] == [1, 2]
    offsets = [row[0] for row in exported(tmp_path / "out", "parquet")["orders-0"]]
    assert offsets == [0, 1, 2]


def test_a_full_disk_leaves_no_part_of_a_file_under_a_final_name(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", small]).returncode:
        pytest.skip("mounting a tmpfs needs root")
    try:
        target = small / "out"
        options = ("--format", "csv", *CHUNKS)
        command = [sys.executable, "-m", "kafkafs", "export", str(SAMPLE), str(target), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 3
        assert "No space left on device" in done.stderr
        assert str(target) in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert export(SAMPLE, tmp_path / "whole", *options).exit_code == 0
        whole = contents(tmp_path / "whole")
        assert contents(target)
        assert set(contents(target).items()) < set(whole.items())
        assert not list(target.glob("_export/staging-*"))
        shutil.copytree(target, tmp_path / "moved")
    finally:
        subprocess.run(["umount", small], check=True)
    assert export(SAMPLE, tmp_path / "moved", *options).exit_code == 0
    assert contents(tmp_path / "moved") == whole


# -- damage


def hurt(tmp_path: Path) -> Path:
    """A source with one batch of 12 records whose checksum is wrong."""
    data = copy_of("current", tmp_path / "hurt", ["orders-0"])
    path = min((data / "orders-0").glob("*.log"))
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    return data


def test_damage_ends_an_export_with_its_place(tmp_path: Path) -> None:
    done = export(hurt(tmp_path), tmp_path / "out")
    assert done.exit_code == 3
    assert "00000000000000000000.log at byte 0" in done.stderr
    assert "--on-corrupt skip" in done.stderr
    assert not data_files(tmp_path / "out")


def test_skipped_damage_is_listed_and_every_other_record_is_there(tmp_path: Path) -> None:
    source = hurt(tmp_path)
    done = export(source, tmp_path / "out", "--on-corrupt", "skip", "--json")
    assert done.exit_code == 1
    facts = json.loads(done.stdout)
    listed = [
        json.loads(line)
        for path in sorted((tmp_path / "out/_export/damage").iterdir())
        for line in path.read_text().splitlines()
    ]
    assert facts["damagedPlaces"] == len(listed) == 1
    damage = json.loads(listed[0]["damage"])
    assert (listed[0]["topic"], listed[0]["partition"], damage["position"]) == ("orders", 0, 0)
    lost = range(damage["firstOffset"], damage["lastOffset"] + 1)
    wanted = [row for row in truth("current")["orders-0"] if row[0] not in lost]
    assert exported(tmp_path / "out", "parquet") == {"orders-0": wanted}
    assert facts["records"] == len(wanted)


# -- days, names, columns


def test_records_are_in_the_day_of_their_timestamp_and_without_one_in_hives_own(
    tmp_path: Path,
) -> None:
    log = BuiltLog(tmp_path / "data")
    stamps = [START_MS, START_MS + DAY_MS, -1, START_MS, 253_402_300_800_000, -2]
    log.segment(
        [batch([Rec(b"%d" % place, timestamp=stamp)], place) for place, stamp in enumerate(stamps)],
        0,
    )
    for form in FORMATS[:2]:
        assert export(tmp_path / "data", tmp_path / form, "--format", form).exit_code == 0
        days = {
            path.parent.name.removeprefix("date="): [row[4] for _, row in READERS[form](path)]
            for path in data_files(tmp_path / form)
        }
        assert days == {
            "2023-11-14": [b"0", b"3"],
            "2023-11-15": [b"1"],
            "__HIVE_DEFAULT_PARTITION__": [b"2"],
            "+10000-01-01": [b"4"],
            "1969-12-31": [b"5"],
        }


def test_more_days_than_files_may_be_open_are_exported_whole(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    days = 150
    log.segment(
        [
            batch([Rec(b"x" * 100, timestamp=START_MS + (place % days) * DAY_MS)], place)
            for place in range(3 * days)
        ],
        0,
    )
    done = export(tmp_path / "data", tmp_path / "out", "--row-group", "10000")
    assert done.exit_code == 0, done.output
    rows = exported(tmp_path / "out", "parquet")["orders-0"]
    assert [row[0] for row in rows] == list(range(3 * days))
    assert len({path.parent for path in data_files(tmp_path / "out")}) == days


@pytest.mark.parametrize("topic", ["a=b", "..", "50%", "new\nline", "é'\"", "x" * 249, "-rf"])
def test_a_hostile_name_of_a_topic_is_one_folder_below_the_target(
    tmp_path: Path, topic: str
) -> None:
    log = BuiltLog(tmp_path / "data", f"{topic}-0")
    log.segment([batch([Rec(b"v")], 0)], 0)
    done = export(tmp_path / "data", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    (path,) = data_files(tmp_path / "out")
    assert len(path.relative_to(tmp_path / "out").parts) == 3
    assert [facts["topic"] for facts in json.loads(done.stdout)["topics"]] == [topic]


def test_chosen_columns_are_the_only_ones(tmp_path: Path) -> None:
    columns = "offset,leaderEpoch,codec,decodedValue"
    source = log_dir("schemas-confluent")
    done = export(source, tmp_path / "out", "--columns", columns)
    assert done.exit_code == 0, done.output
    decoded: dict[tuple[str, int, int], Any] = {}
    for path in data_files(tmp_path / "out"):
        table = pq.ParquetFile(path).read()
        assert table.schema.names == columns.split(",")
        topic = path.relative_to(tmp_path / "out").parts[0].removeprefix("topic=")
        for row in table.to_pylist():
            if row["decodedValue"] is not None:
                decoded[topic, row["offset"]] = json.loads(row["decodedValue"])
    lines = export(source, tmp_path / "lines", "--format", "jsonl")
    assert lines.exit_code == 0
    wanted = {}
    for path in data_files(tmp_path / "lines"):
        for line in map(json.loads, path.read_text().splitlines()):
            if line.get("valueEncoding") in ("avro", "protobuf", "json-schema", "json"):
                wanted[line["topic"], line["offset"]] = line["value"]
    assert decoded == wanted
    assert wanted


def test_compressed_lines_are_the_same_lines(tmp_path: Path) -> None:
    for codec in ("none", "gzip"):
        options = ("--format", "jsonl", "--compression", codec)
        assert export(SAMPLE, tmp_path / codec, *options).exit_code == 0
    plain = contents(tmp_path / "none")
    packed = contents(tmp_path / "gzip")
    assert {f"{name}.gz": text for name, text in plain.items()} == {
        name: gzip.decompress(data) for name, data in packed.items()
    }


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip", "lz4", "brotli"])
def test_parquet_has_the_codec_that_was_asked_for(tmp_path: Path, codec: str) -> None:
    assert export(SAMPLE, tmp_path / "out", "--compression", codec).exit_code == 0
    for path in data_files(tmp_path / "out"):
        found = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
        assert found == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())


# -- refusals


def test_what_is_refused_writes_nothing_and_names_a_way_out(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert export(SAMPLE, target, "--topic", "orders").exit_code == 0
    before = contents(target)
    for arguments, said in (
        (("--format", "csv"), "form 'parquet', not 'csv'"),
        (("--committed",), "filters"),
        (("--columns", "offset"), "filters"),
    ):
        done = export(SAMPLE, target, *arguments)
        assert (done.exit_code, said in done.stderr) == (2, True), done.stderr
        assert "same settings" in done.stderr
    assert contents(target) == before
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mine.txt").write_text("mine")
    done = export(SAMPLE, foreign)
    assert done.exit_code == 2
    assert "choose another target" in done.stderr
    assert [path.name for path in foreign.iterdir()] == ["mine.txt"]


def test_a_target_on_below_or_above_the_source_is_refused(tmp_path: Path) -> None:
    data = copy_of("current", tmp_path / "above" / "data", ["orders-0"])
    link = tmp_path / "link"
    link.symlink_to(data)
    before = sorted(data.rglob("*"))
    for target in (data, data / "out", data / "orders-0" / "out", tmp_path / "above", link / "out"):
        done = export(data, target)
        assert done.exit_code == 2
        assert "inside each other" in done.stderr
    assert sorted(data.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--topic", "nosuch"), "nosuch"),
        (
            ("--from", "2033-01-01"),
            "there are no records in the range; orders-0 holds offsets 0 to 999, times 2023-",
        ),
        (("--columns", "nosuch"), "there is no column 'nosuch'"),
        (("--columns", "topic"), "topic is the folder"),
        (("--format", "jsonl", "--columns", "key"), "record lines"),
        (("--format", "csv", "--compression", "lz4"), "csv has none, gzip"),
        (("--values", "text"), "parquet has bytes as they are"),
    ],
)
def test_an_export_of_nothing_or_of_nonsense_is_an_error(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = export(SAMPLE, tmp_path / "out", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_log_that_does_not_continue_the_export_is_refused(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment([batch([Rec(b"%d" % at)], at) for at in range(5)], 0)
    assert export(tmp_path / "data", tmp_path / "out").exit_code == 0
    shutil.rmtree(log.folder)
    BuiltLog(tmp_path / "data").segment([batch([Rec(b"new")], 0)], 0)
    done = export(tmp_path / "data", tmp_path / "out")
    assert done.exit_code == 2
    assert "orders-0 ends at offset 1, and 5 were exported" in done.stderr


def test_records_that_were_deleted_between_two_runs_are_named(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    log.segment([batch([Rec(b"a")], 0)], 0)
    assert export(tmp_path / "data", tmp_path / "out").exit_code == 0
    shutil.rmtree(log.folder)
    BuiltLog(tmp_path / "data").segment([batch([Rec(b"d")], 3)], 3)
    done = export(tmp_path / "data", tmp_path / "out", "--json")
    assert done.exit_code == 1
    facts = json.loads(done.stdout)
    assert facts["gaps"] == [{"partition": "orders-0", "firstOffset": 1, "nextOffset": 3}]
    assert facts["records"] == 1


def test_kafkas_own_topics_are_left_out_and_named(tmp_path: Path) -> None:
    source = log_dir("current")
    done = export(source, tmp_path / "out", "--format", "jsonl")
    assert "__consumer_offsets" in done.stderr
    assert not list((tmp_path / "out").glob("topic=__*"))
    assert export(source, tmp_path / "all", "--format", "jsonl", "--internal").exit_code == 0
    assert (tmp_path / "all" / "topic=__consumer_offsets").is_dir()
