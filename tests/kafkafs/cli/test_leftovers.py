"""Records beside the logs: told at the end of each command that reads records, and read with --deleted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

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


@pytest.mark.parametrize(
    "command",
    [
        ("sql", "select count(*) from orders", "SOURCE"),
        ("export", "SOURCE", "TARGET", "-t", "orders", "--format", "jsonl"),
        ("stats", "SOURCE", "-t", "orders"),
        ("stats", "SOURCE", "-t", "orders", "--keys"),
    ],
)
def test_other_commands_say_what_reads_them(
    source: tuple[Path, str], command: tuple[str, ...], tmp_path: Path
) -> None:
    folder, name = source
    words = [each.replace("SOURCE", str(folder)) for each in command]
    words = [each.replace("TARGET", str(tmp_path / "target")) for each in words]
    done = run(*words)
    is_counted = command[0] == "stats" and "/" not in name  # stats has a row for each folder
    assert ("was not searched: kafkafs grep --deleted" in done.stderr) != is_counted
    assert "leftover" not in run(*words, "--quiet").stderr


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
