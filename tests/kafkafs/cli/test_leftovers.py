"""Records beside the logs: told at the end of each command that reads records, and read with --deleted."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import kafkafs
from kafkafs.cli import cli
from tests.builders import Rec, batch
from tests.engine.log.folders import LogWriter

NAMES = {
    "file": "orders-0/00000000000000000000.log.deleted",
    "cleaned": "orders-0/00000000000000000000.log.cleaned",
    "delete": "orders-0.0123456789abcdef0123456789abcdef-delete",
    "stray": "orders-0.0123456789abcdef0123456789abcdef-stray",
    "future": "orders-0.0123456789abcdef0123456789abcdef-future",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


def compacted(folder: Path) -> Path:
    """A log dir whose log lost the offsets 1 and 3 of 0 to 4 to compaction."""
    writer = LogWriter(folder, "orders-0")
    for offset in (0, 2, 4):
        writer.append(batch([Rec(b"value %d" % offset, key=b"k")], offset))
    LogWriter(folder, "other-0").append_records(b"value")
    return folder


@pytest.fixture(params=NAMES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A log dir, and the name of a file or folder beside its log with the offsets 0 to 3."""
    folder, name = compacted(tmp_path / "data"), NAMES[request.param]
    path = folder / name
    if not name.startswith("orders-0/"):
        path.mkdir()
        path /= f"{0:020}.log"
    batches = [batch([Rec(b"value %d" % offset, key=b"k")], offset) for offset in range(4)]
    path.write_bytes(b"".join(batches))
    return folder, name


def lines(done: Result) -> list[tuple[int, str | None]]:
    found = map(json.loads, done.stdout.splitlines())
    return [(line["offset"], line.get("leftover")) for line in found]


COMMANDS = {
    "grep": ("grep", "value [0-9]", "SOURCE"),
    "grep a path": ("grep", "value", "SOURCE", "orders-0"),
    "cat": ("cat", "SOURCE", "--topic", "orders"),
    "get": ("get", "SOURCE", "orders", "k", "--all"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_records_that_are_only_there_come_last_and_on_request_all(
    source: tuple[Path, str], command: str
) -> None:
    folder, name = source
    words = [each.replace("SOURCE", str(folder)) for each in COMMANDS[command]]
    log = [(0, None), (2, None), (4, None)]
    done = run(*words)
    assert lines(done) == log
    note = done.stderr.splitlines()[-1]
    assert note.startswith("kafkafs: 1 leftover file (")
    assert note.endswith(") was not searched: --deleted")
    assert "leftover" not in run(*words, "--quiet").stderr
    done = run(*words, "--deleted")
    assert lines(done) == [*log, (1, name), (3, name)]
    assert "leftover" not in done.stderr
    beside = [(offset, name) for offset in range(4)]
    assert lines(run(*words, "--deleted-all")) == log + beside


def test_get_prints_the_newest_record_that_is_only_there(source: tuple[Path, str]) -> None:
    folder, name = source
    assert lines(run("get", str(folder), "orders", "k", "--deleted")) == [(4, None), (3, name)]


def test_ranges_and_other_output_of_grep(source: tuple[Path, str]) -> None:
    folder, name = str(source[0]), source[1]
    deleted = ("grep", "value", folder, "-t", "orders", "--deleted")
    assert lines(run(*deleted, "--from", "2", "--to", "4")) == [(2, None), (3, name)]
    assert lines(run("grep", "value", folder, "orders-0/offset/1..2", "--deleted")) == [(1, name)]
    assert run(*deleted, "-c").stdout == "5\n"
    assert run(*deleted, "-l").stdout == f"orders-0\n{name}\n"
    assert f"{name}:1:value\n" in run(*deleted, "-on").stdout
    assert json.loads(run(*deleted, "-o", "--json").stdout.splitlines()[-1])["leftover"] == name
    assert lines(run("grep", "--where", f'.leftover == "{name}"', folder, "--deleted")) == [
        (1, name),
        (3, name),
    ]


def test_lines_that_cannot_say_where_they_are_from_are_refused(source: tuple[Path, str]) -> None:
    folder = str(source[0])
    for words in (
        ("grep", "v", folder, "-o"),
        ("grep", "v", folder, "--format", "%s"),
        ("cat", folder, "--format", "%s"),
        ("cat", folder, "orders-0/offset/0"),
        ("get", folder, "orders", "k", "--value"),
    ):
        done = run(*words, "--deleted")
        assert (done.exit_code, done.stdout) == (2, "")


LOG = [(0, None), (2, None), (4, None)]


def exported(folder: Path, target: Path, *words: str) -> Result:
    return run("export", str(folder), str(target), "-t", "orders", *words)


def rows_of(target: Path) -> list[tuple[int, str | None]]:
    """The records in the files of an export, in any of its formats."""
    found: list[dict[str, Any]] = []
    for path in sorted(target.rglob("part-*")) + sorted(target.rglob("chunk-*-part-*")):
        if path.suffix == ".jsonl":
            found += [json.loads(line) for line in path.read_text().splitlines()]
        elif path.suffix == ".csv":
            found += list(csv.DictReader(path.read_text().splitlines()))
        elif path.suffix == ".avro":
            with open(path, "rb") as file:
                found += list(fastavro.reader(file))
        elif path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
        elif path.suffix == ".arrow":
            found += pa.ipc.open_file(path).read_all().to_pylist()
    return [(int(row["offset"]), row.get("leftover") or None) for row in found]


@pytest.mark.parametrize("form", ["jsonl", "csv", "avro", "parquet", "arrow"])
def test_an_export_has_them_last_with_the_same_mark(
    source: tuple[Path, str], form: str, tmp_path: Path
) -> None:
    folder, name = source
    for word, beside in (
        ("", []),
        ("--deleted", [(1, name), (3, name)]),
        ("--deleted-all", [(offset, name) for offset in range(4)]),
    ):
        target = tmp_path / f"target{word}"
        done = exported(folder, target, "--format", form, *filter(None, [word]))
        assert done.exit_code == 0, done.stderr
        assert ("leftover" in done.stderr) == (not word)
        assert sorted(rows_of(target), key=str) == sorted([*LOG, *beside], key=str)


def test_an_export_that_goes_on_writes_no_leftover_twice(
    source: tuple[Path, str], tmp_path: Path
) -> None:
    folder, target = source[0], tmp_path / "target"
    words = ("--deleted", "--format", "jsonl")
    assert exported(folder, target, *words).exit_code == 0
    first = rows_of(target)
    assert exported(folder, target, *words).exit_code == 0
    assert rows_of(target) == first
    later = f"{7:020}.log.deleted"
    (folder / "orders-0" / later).write_bytes(batch([Rec(b"late")], 7))
    assert exported(folder, target, *words).exit_code == 0
    assert sorted(rows_of(target)) == sorted([*first, (7, f"orders-0/{later}")])  # type: ignore[type-var]
    assert exported(folder, target, "--format", "jsonl").exit_code == 2  # other settings


def test_sql_and_scans_have_them_in_the_column_leftover(source: tuple[Path, str]) -> None:
    folder, name = source
    query = 'select "offset", leftover from orders'

    def rows(*words: str) -> list[tuple[int, str | None]]:
        done = run("sql", query, str(folder), "--json", *words)
        assert done.exit_code == 0, done.stderr
        found = map(json.loads, done.stdout.splitlines())
        return sorted(((row["offset"], row["leftover"]) for row in found), key=str)

    assert rows() == LOG
    only_there = sorted([*LOG, (1, name), (3, name)], key=str)
    assert rows("--deleted") == only_there
    assert rows("--deleted", "-p", "orders-0") == only_there
    everything = sorted([*LOG, *((offset, name) for offset in range(4))], key=str)
    assert rows("--deleted-all") == everything
    with kafkafs.open(folder) as opened:
        for deleted, expected in ((False, LOG), (True, only_there), ("all", everything)):
            scan = opened.scan("orders", columns=["offset", "leftover"], deleted=deleted)
            table = scan.to_arrow().to_pylist()
            assert sorted(((row["offset"], row["leftover"]) for row in table), key=str) == expected
            assert scan.count() == scan.count(checksums=False) == len(expected)
        assert "leftover" in opened.scan("orders", deleted=True).schema.names
        assert "leftover" not in opened.scan("orders").schema.names
        part = opened.scan("orders", offsets=(3, None), deleted=True).to_arrow()
        assert sorted(part["offset"].to_pylist()) == [3, 4]


def test_what_a_leftover_lacks_is_no_loss_and_its_damage_is_told(tmp_path: Path) -> None:
    folder = compacted(tmp_path / "data")
    path = folder / "orders-0" / f"{10:020}.log.deleted"
    good = [batch([Rec(b"v", key=b"k")], offset) for offset in (10, 20)]
    path.write_bytes(b"".join(good))
    name = f"orders-0/{path.name}"
    done = run("sql", 'select "offset", leftover from orders', str(folder), "--json", "--deleted")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, [row["offset"] for row in found if row["leftover"] == name]) == (
        0,
        [10, 20],
    )
    data = bytearray(b"".join(good))
    data[30] ^= 1
    path.write_bytes(data)
    done = run("sql", "select count(*) from orders", str(folder), "--deleted")
    assert done.exit_code == 1
    assert path.name in done.stderr


@pytest.mark.parametrize("more", [(), ("--keys",)])
def test_stats_have_a_row_for_each_file_and_mark_rows(
    source: tuple[Path, str], more: tuple[str, ...]
) -> None:
    folder, name = source
    is_file = "/" in name

    def rows(*words: str) -> dict[str, tuple[int, str | None]]:
        done = run("stats", str(folder), "-t", "orders", "--json", *more, *words)
        assert done.exit_code == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        return {
            row["partition"]: (row["records"], row.get("leftover"))
            for row in found
            if row["type"] != "summary"
        }

    log = {"orders-0": (3, None)}
    folders = {} if is_file else {name: (4, name)}
    assert rows() == {**log, **folders}
    in_file = {name: (2 if more else 4, name)} if is_file else {}
    assert rows("--deleted") == {**log, **folders, **in_file}
    done = run("stats", str(folder), "-t", "orders", *more)
    assert ("was not searched: --deleted" in done.stderr) == is_file
    assert "leftover" not in run("stats", str(folder), "-t", "orders", *more, "--quiet").stderr


def test_a_topic_that_is_only_set_aside_is_a_view_and_is_exported(tmp_path: Path) -> None:
    folder = compacted(tmp_path / "data")
    name = "gone-0.0123456789abcdef0123456789abcdef-delete"
    LogWriter(folder, name).append_records(b"needle")
    query = ("sql", 'select "offset", leftover from gone', str(folder), "--json")
    assert run(*query).exit_code == 2
    done = run(*query, "--deleted")
    assert json.loads(done.stdout) == {"offset": 0, "leftover": name}
    with kafkafs.open(folder) as opened:
        for topics in ("gone", ["gone"], {"gone": [0]}):
            assert opened.scan(topics, deleted=True).count() == 1
        assert opened.scan(deleted=True).count() == opened.scan().count() + 1
        with pytest.raises(KeyError):
            opened.scan("gone")
    target = tmp_path / "target"
    words = ("export", str(folder), str(target), "--format", "jsonl", "-t", "gone", "--deleted")
    assert run(*words).exit_code == 0
    assert rows_of(target) == [(0, name)]


def test_a_mask_holds_for_leftovers_in_tables_and_files(
    source: tuple[Path, str], tmp_path: Path
) -> None:
    policy = tmp_path / "masks.toml"
    policy.write_text('[[rules]]\ntopics = ["orders"]\n\n[rules.fields]\n".value" = "drop"\n')
    mask = ("--mask", str(policy), "--deleted")
    done = run("sql", "select * from orders", str(source[0]), "--json", *mask)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 5)
    assert "value 1" not in done.stdout
    target = tmp_path / "target"
    assert exported(source[0], target, "--format", "jsonl", *mask).exit_code == 0
    texts = [path.read_text() for path in target.rglob("*.jsonl")]
    assert len(rows_of(target)) == 5
    assert not any("value 1" in text for text in texts)


def test_what_is_not_of_the_chosen_topics_and_what_is_empty_is_not_told(tmp_path: Path) -> None:
    folder = compacted(tmp_path / "data")
    (folder / "other-0" / f"{0:020}.log.deleted").write_bytes(batch([Rec(b"v")], 0))
    (folder / "orders-0" / f"{0:020}.log.deleted").touch()
    (folder / "orders-0" / f"{0:020}.index.deleted").write_bytes(b"12345678")
    assert "leftover" not in run("grep", "v", str(folder), "-t", "orders").stderr
    assert "leftover" not in run("get", str(folder), "orders", "k").stderr
    done = run("grep", "-c", "--json", "v", str(folder))
    told = {"leftovers": {"files": 1, "bytes": 69, "option": "--deleted"}}
    assert json.loads(done.stderr.splitlines()[-1]) == told


def test_a_topic_that_is_only_being_deleted_is_found(tmp_path: Path) -> None:
    folder = compacted(tmp_path / "data")
    name = "gone-0.0123456789abcdef0123456789abcdef-delete"
    LogWriter(folder, name).append_records(b"needle")
    assert run("grep", "needle", str(folder)).exit_code == 1
    assert lines(run("grep", "needle", str(folder), "--deleted")) == [(0, name)]


def test_a_mask_holds_for_them_too(source: tuple[Path, str], tmp_path: Path) -> None:
    policy = tmp_path / "masks.toml"
    policy.write_text('[[rules]]\ntopics = ["orders"]\n\n[rules.fields]\n".value" = "drop"\n')
    done = run("cat", str(source[0]), "-t", "orders", "--deleted", "--mask", str(policy))
    assert (done.exit_code, len(lines(done))) == (0, 5)
    assert "value 1" not in done.stdout
    assert "value 1" in run("cat", str(source[0]), "-t", "orders", "--deleted").stdout
