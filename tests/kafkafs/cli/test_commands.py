"""The commands as a user meets them: output, exit status, one line for what goes wrong."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import COMMANDS, cli, is_helper_call, main
from tests.fixtures_data import copy_of, log_dir, truth_offsets, truth_records

CURRENT = str(log_dir("current"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=True)


def status_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0), capsys.readouterr().err


def test_cat_writes_a_record_by_offset() -> None:
    line = json.loads(run("cat", CURRENT, "orders-0/offset/35").stdout)
    record = truth_records("current", "orders-0")[35]
    assert (line["offset"], line["timestamp"]) == (35, record.timestamp)
    assert line["key"].encode() == record.key
    assert line["value"] == json.loads(record.value or b"")


def test_cat_writes_the_exact_bytes_of_a_value() -> None:
    result = run("cat", CURRENT, "weird-0/offset/10.value")
    assert result.stdout_bytes == truth_records("current", "weird-0")[10].value


def test_cat_follows_links_to_a_record_by_time() -> None:
    (instant, offset), *_rest = [
        (ms, found)
        for ms, found in truth_offsets("current")["orders-0"]["for_times"].items()
        if found > 0
    ]
    line = json.loads(run("cat", CURRENT, f"orders-0/time/{instant}").stdout)
    assert line["offset"] == offset


SAMPLE = str(log_dir("sample"))


def places(result: Result) -> list[tuple[int, int]]:
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return [(line["partition"], line["offset"]) for line in lines]


def test_cat_writes_the_records_of_chosen_partitions_in_a_half_open_range() -> None:
    found = run("cat", SAMPLE, "-t", "orders", "--from", "997", "--to", "999")
    assert (found.exit_code, places(found)) == (0, [(0, 997), (0, 998), (1, 997), (1, 998)])


def test_cat_takes_times_as_every_command_does() -> None:
    path = run("cat", SAMPLE, "orders-1/time/2023-11-14T22:20..2023-11-14T22:30/records.jsonl")
    words = ("-p", "orders-1", "--from", "2023-11-14T22:20", "--to", "2023-11-14T22:30")
    found = run("cat", SAMPLE, *words)
    assert (found.exit_code, found.stdout) == (0, path.stdout)
    assert len(places(found)) > 10


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (
            ["--from", "5000"],
            1,
            "there are no records in the range; orders-0 holds offsets 0 to 999, times 2023-",
        ),
        (["-t", "nobody"], 2, "no partition matches --topic nobody"),
        ([], 2, "name PATHs, or choose records with --topic"),
        (["-t", "orders", "orders-0/offset/1"], 2, "--from and --to: not both"),
    ],
    ids=str,
)
def test_cat_of_no_records_is_an_error(words: list[str], status: int, said: str) -> None:
    found = run("cat", SAMPLE, *words)
    assert (found.exit_code, found.stdout) == (status, "")
    assert said in found.stderr


def test_cat_of_a_folder_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = status_of(capsys, "cat", CURRENT, "orders-0")
    assert status == 2
    assert "kafkafs ls" in error


def test_a_path_that_is_not_there_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = status_of(capsys, "cat", CURRENT, "orders-0/offset/99999")
    assert status == 3
    assert error.count("\n") == 1
    assert "orders-0/offset/99999" in error


@pytest.mark.parametrize(
    "make",
    [
        lambda path: None,
        lambda path: path.mkdir(),
        lambda path: (path.mkdir(), (path / "notes.txt").write_text("x")),
        lambda path: path.write_text("not a log"),
    ],
    ids=["missing", "empty", "no log dir", "some file"],
)
def test_a_source_that_is_none_is_one_line_and_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: object
) -> None:
    source = tmp_path / "source"
    assert callable(make)
    make(source)
    status, error = status_of(capsys, "ls", str(source))
    assert status == 3
    assert error.startswith("kafkafs: ")
    assert error.count("\n") == 1
    assert str(source) in error


def test_ls_lists_names_and_ls_json_gives_facts() -> None:
    assert "orders-0/\n" in run("ls", CURRENT).stdout
    facts = [
        json.loads(line)
        for line in run("ls", "--json", CURRENT, "orders-0/segments").stdout.splitlines()
    ]
    by_name = {fact["name"]: fact for fact in facts}
    path = Path(CURRENT, "orders-0", "00000000000000000000.log")
    assert by_name[path.name]["size"] == path.stat().st_size
    assert by_name[path.name]["sizeIsExact"] is True


def test_offsets_are_the_brokers() -> None:
    truth = truth_offsets("current")
    for time, key in (("latest", "latest"), ("-2", "earliest")):
        answers = run("offsets", CURRENT, "--time", time).stdout.split()
        for answer in answers:
            topic, partition, offset = answer.rsplit(":", 2)
            if (name := f"{topic}-{partition}") in truth:
                assert int(offset) == truth[name][key], name


def test_offsets_committed_are_last_stable_offsets() -> None:
    answers = run("offsets", CURRENT, "--committed", "--topic-partitions", "open-txn").stdout
    expected = truth_offsets("current")["open-txn-0"]["latest_committed"]
    assert answers == f"open-txn:0:{expected}\n"


@pytest.mark.parametrize("kind", ["current", "legacy"])
def test_offsets_for_times_are_the_brokers_and_left_out_when_there_are_none(kind: str) -> None:
    for name, facts in truth_offsets(kind).items():
        topic, _, partition = name.rpartition("-")
        if not Path(log_dir(kind), name).is_dir():
            continue
        for ms, offset in facts.get("for_times", {}).items():
            if int(ms) < 10_000:
                continue
            answer = run(
                "offsets",
                str(log_dir(kind)),
                "--time",
                ms,
                "--topic-partitions",
                f"{topic}:{partition}",
            ).stdout
            assert answer == ("" if offset < 0 else f"{topic}:{partition}:{offset}\n"), (name, ms)


def test_topic_partitions_take_half_open_ranges_and_patterns() -> None:
    answers = run("offsets", str(log_dir("sample")), "--topic-partitions", "or.*:0-1").stdout
    assert [line.rsplit(":", 1)[0] for line in answers.split()] == ["orders:0"]


def test_offsets_json_is_an_object_a_line() -> None:
    fact = json.loads(run("offsets", CURRENT, "--json", "--topic", "trimmed").stdout)
    assert fact["topic"] == "trimmed"
    assert fact["offset"] == truth_offsets("current")["trimmed-0"]["latest"]


@pytest.mark.parametrize("values", ["not-a-time", "2024-13-01T00:00:00Z", "-9"])
def test_a_time_that_is_none_is_a_usage_error(
    values: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(capsys, "offsets", CURRENT, f"--time={values}")[0] == 2


GREPS = [
    ("Oslo", "orders-0", []),
    ("Os.o", "orders-0", []),
    ("oSLO", "codec-zstd-0", ["-i"]),
    ("k34[0-9]", "codec-lz4-0", ["--field", "key"]),
    ("^k1$", "mixed.codecs_in-one-7-0", ["--field", "key"]),
    ("trace-id", "orders-0", ["--field", "headers"]),
]


@pytest.mark.parametrize(("pattern", "partition", "options"), GREPS)
def test_grep_prints_the_records_that_hold_the_pattern(
    pattern: str, partition: str, options: list[str]
) -> None:
    import re

    expression = re.compile(pattern.encode(), re.IGNORECASE if "-i" in options else 0)
    fields = {options[-1]} if "--field" in options else {"key", "value", "headers"}
    expected = [
        record.offset
        for record in truth_records("current", partition)
        if ("key" in fields and record.key is not None and expression.search(record.key))
        or ("value" in fields and record.value is not None and expression.search(record.value))
        or (
            "headers" in fields
            and any(
                expression.search(key.encode()) or (value is not None and expression.search(value))
                for key, value in record.headers
            )
        )
    ]
    result = run("grep", *options, pattern, CURRENT, partition)
    found = [json.loads(line)["offset"] for line in result.stdout.splitlines()]
    assert expected
    assert found == expected
    assert result.exit_code == 0


def test_grep_gives_the_very_lines_of_records(tmp_path: Path) -> None:
    lines = run("cat", CURRENT, "orders-0/records/00000000000000000000.jsonl").stdout.splitlines()
    expected = [line for line in lines if "Lagos" in line]
    found = run("grep", "-F", "Lagos", CURRENT, "orders-0/records/00000000000000000000.jsonl")
    assert found.stdout.splitlines() == expected


def test_grep_without_a_match_is_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(capsys, "grep", "no such words", CURRENT, "orders-0")[0] == 1


def test_grep_counts_and_stops_early() -> None:
    lines = run("grep", "Lagos", CURRENT, "orders-0").stdout.splitlines()
    assert run("grep", "-c", "Lagos", CURRENT, "orders-0").stdout == f"{len(lines)}\n"
    assert run("grep", "-m", "3", "Lagos", CURRENT, "orders-0").stdout.splitlines() == lines[:3]


def test_grep_committed_leaves_out_what_was_aborted_or_is_open() -> None:
    everything = {record.offset for record in truth_records("current", "txn-0")}
    committed = {record.offset for record in truth_records("current", "txn-0", committed=True)}
    assert committed < everything
    found = run("grep", "--committed", "city|k[0-9]", CURRENT, "txn-0").stdout.splitlines()
    offsets = {json.loads(line)["offset"] for line in found}
    assert offsets <= committed
    assert offsets


def test_grep_takes_a_period() -> None:
    found = run("grep", "city", CURRENT, "orders-0/time/2023-11-14T22:20..2023-11-14T22:21").stdout
    stamps = [json.loads(line)["time"] for line in found.splitlines()]
    assert stamps
    assert all(stamp.startswith("2023-11-14T22:20") for stamp in stamps)


def test_a_pattern_that_is_none_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    status, error = status_of(capsys, "grep", "(", CURRENT)
    assert status == 2
    assert "-F" in error


def test_cp_copies_a_period_with_times_and_refuses_to_overwrite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "copy"
    assert run("cp", CURRENT, "time/2023-11-14", str(target)).exit_code == 0
    log = target / "orders-0" / "00000000000000000000.log"
    source = Path(CURRENT, "orders-0", "00000000000000000000.log")
    assert log.read_bytes() == source.read_bytes()
    newest = max(
        record.timestamp for record in truth_records("current", "orders-0") if record.offset < 395
    )
    assert log.stat().st_mtime_ns // 10**6 == newest
    status, _error = status_of(capsys, "cp", CURRENT, "time/2023-11-14/orders-0", str(target))
    assert status != 0


def test_a_full_disk_is_named_by_the_copy_and_not_as_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    target = tmp_path / "copy.json"
    status, error = status_of(capsys, "cp", CURRENT, "orders-0/offset/35", str(target))
    assert (status, error) == (3, f"kafkafs: {target}: No space left on device\n")
    assert list(tmp_path.iterdir()) == []


def test_cp_never_writes_into_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(os.listdir(CURRENT))
    status, error = status_of(
        capsys, "cp", CURRENT, "orders-0/offset/35", str(Path(CURRENT, "copy.json"))
    )
    assert status == 2
    assert "inside the source" in error
    assert sorted(os.listdir(CURRENT)) == before


def test_a_reader_that_goes_away_is_no_error() -> None:
    piped = subprocess.run(
        f"'{sys.executable}' -m kafkafs grep . '{CURRENT}' | head -n 1",
        shell=True, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert piped.stderr == ""
    assert json.loads(piped.stdout)


@pytest.mark.parametrize(
    ("program", "arguments", "expected"),
    [
        ("/usr/bin/kafkafs", ["/data", "/mnt", "-o", "ro,dev"], True),
        ("/sbin/mount.kafkafs", ["/data", "/mnt"], True),
        ("/usr/bin/kafkafs", ["mount", "/data", "/mnt", "-o", "ro"], False),
        ("/usr/bin/kafkafs", ["--help"], False),
        ("/usr/bin/kafkafs", [], False),
    ],
)
def test_a_call_by_mount_is_told_from_a_persons(
    program: str, arguments: list[str], expected: bool
) -> None:
    assert is_helper_call(program, arguments) is expected


def test_cat_imports_no_other_command_and_no_library_that_the_kernel_replaces() -> None:
    code = """
import sys, click
from kafkafs.cli import cli
cli.get_command(click.Context(cli), "cat")
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "kafkafs.cli.copying" in imported
    unwanted = {"crc32c", "cramjam", "email", "kafkafs.cli.searching"}
    assert not imported & (unwanted | {"engine.topics.internal_topics"})


def test_the_list_of_commands_is_whole_sentences_and_imports_no_command() -> None:
    code = """
import sys
from kafkafs.cli import main
try:
    main(["--help"])
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.summary)}$", done.stdout, re.MULTILINE)
    imported = set(done.stderr.split())
    assert "kafkafs.cli" in imported
    modules = {f"kafkafs.cli.{command.module}" for command in COMMANDS.values()}
    assert not imported & (modules | {"numpy", "engine.log.log_directory"})


@pytest.mark.parametrize("command", [[], *[[name] for name in COMMANDS]])
def test_help_shows_an_example(command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "kafkafs " in result.stdout


def test_grep_reports_a_damaged_batch_and_searches_the_others(tmp_path: Path) -> None:
    source = copy_of("current", tmp_path, ["orders-0", "codec-zstd-0"])
    for partition in ("orders-0", "codec-zstd-0"):
        log = source / partition / "00000000000000000000.log"
        data = bytearray(log.read_bytes())
        data[100] ^= 1
        log.write_bytes(data)
        size = int.from_bytes(data[8:12], "big") + 12
        lost = int.from_bytes(data[23:27], "big")
        result = run("grep", "-F", "city", str(source), partition)
        found = [json.loads(line)["offset"] for line in result.stdout.splitlines()]
        assert found == [
            record.offset
            for record in truth_records("current", partition)
            if record.offset > lost and b"city" in (record.value or b"")
        ]
        assert f"{partition}/{log.name}: byte 0: " in result.stderr
        assert f"({size} bytes)" in result.stderr
