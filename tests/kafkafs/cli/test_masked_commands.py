"""Each command either has `--mask`, and shows no byte that it hides, or says why it has none."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import COMMANDS, cli
from kafkafs.cli.options.masking import NO_MASK
from tests.kafkafs.masked_source import (
    CANARY,
    FIELDS_ALONE,
    found_in,
    write_source,
    written_policy,
)


def leaves(
    group: click.Group, context: click.Context, before: str = ""
) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands by their names in full."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from leaves(command, click.Context(command), f"{before}{name} ")
        else:
            yield before + name, command


GRAMMAR = dict(leaves(cli, click.Context(cli)))  # type: ignore[arg-type]
TAKING = {
    name
    for name, command in GRAMMAR.items()
    if any("--mask" in each.opts for each in command.params)
}
WALKS: dict[str, list[list[str]]] = {
    "browse": [
        ["browse", "{}"],
        ["browse", "{}", "customers-0"],
        ["browse", "{}", "customers-0/offset/0.."],
        ["browse", "{}", "customers-0/offset/1"],
    ],
    "cat": [["cat", "{}", "customers-0"], ["cat", "{}", "-t", "customers,customers-dlq"]],
    "cp": [
        ["cp", "{}", "customers-0", "{out}"],
        ["cp", "{}", "customers-0/records", "{out}"],
        ["cp", "{}", "customers-0/time/2023/records.jsonl", "{out}"],
        ["cp", "{}", "customers-0/time/2023/exact.jsonl", "{out}"],
        ["cp", "{}", "time/2023", "{out}"],
        ["cp", "{}", ".kafkafs", "{out}"],
        ["cp", "{}", "", "{out}"],
    ],
    "dump": [
        ["dump", "{}", "--json"],
        ["dump", "{}", "--json", "--print-data-log", "--deep-iteration", "-j", "2"],
        ["dump", "{}/customers-0/00000000000000000000.log", "--json"],
        ["dump", "{loose}", "--json"],
    ],
    "export": [
        ["export", "{}", "{out}", "--format", form, "--on-corrupt", "skip", *more]
        for form, more in (
            ("jsonl", []),
            ("csv", []),
            ("csv", ["--values", "base64"]),
            ("parquet", []),
            ("arrow", ["--compression", "none"]),
            ("avro", ["--compression", "none"]),
            ("parquet", ["--columns", "key,value,headers,decodedKey,decodedValue,keyNote,valueNote"]),
        )
    ],
    "get": [["get", "{}", "other", "k", "--all"]],
    "head": [["head", "{}"]],
    "tail": [["tail", "{}"]],
    "grep": [["grep", "--where", "true", "{}"]],
    "ls": [
        ["ls", "{}"],
        ["ls", "-l", "{}", "customers-0"],
        ["ls", "--json", "{}", "customers-0/offset"],
        ["ls", "--json", "{}", "customers-0/records"],
        ["ls", "-d", "--json", "{}", "customers-0/offset/3"],
        ["ls", "--json", "{}", ".kafkafs"],
    ],
    "mount": [],  # in tests/mount/test_masked_mount.py
    "sql": [
        ["sql", "select * from customers", "{}", "--json"],
        ["sql", "select key, value, headers from customers", "{}", "--csv"],
        ["sql", "select min(value), max(key), min(decodedValue) from customers", "{}"],
        ["sql", "select count(*), value from customers group by all", "{}", "--json"],
        ["sql", "select * from customers where value is not null", "{}", "--explain"],
    ],
    "stats": [["stats", "{}"], ["stats", "{}", "--json"], ["stats", "{}", "--keys"], ["stats", "{}", "--keys", "--json"]],
}  # fmt: skip
SHOWN = [(name, words) for name, walks in WALKS.items() for words in walks]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "data"
    write_source(folder)
    (folder / "loose").mkdir()
    log = folder / "customers-0" / f"{0:020}.log"
    (folder / "loose" / log.name).write_bytes(log.read_bytes())
    return folder


def run(source: Path, words: list[str], out: Path, *more: str) -> Result:
    """Run a command line."""
    loose = source / "loose" / f"{0:020}.log"
    given = [word.format(source, out=out, loose=loose) if "{" in word else word for word in words]
    return CliRunner().invoke(cli, [*given, *more])


def written(out: Path) -> bytes:
    """Return all names and bytes below a folder; Parquet and compressed files as their columns."""
    found = [b""]
    paths = [out] if out.is_file() else sorted(out.rglob("*"))
    for path in paths:
        found.append(os.fsencode(path.relative_to(out)))
        if not path.is_file() or path.is_symlink():
            continue
        found.append(path.read_bytes())
        table = None
        if path.suffix == ".parquet":
            table = pq.read_table(path, partitioning=None)
        elif path.suffix == ".arrow":
            table = pa.ipc.open_file(path).read_all()
        if table is not None:
            found += [
                bytes(buffer)
                for column in table.columns
                for chunk in column.chunks
                for buffer in chunk.buffers()
                if buffer is not None
            ]
    return b"\n".join(found)


def test_each_command_has_the_option_or_a_reason() -> None:
    assert {name: name in TAKING for name in GRAMMAR} == {
        name: name not in NO_MASK for name in GRAMMAR
    }
    assert set(NO_MASK) == set(GRAMMAR) - TAKING
    assert {name.partition(" ")[0] for name in GRAMMAR} == set(COMMANDS)


def test_each_command_with_the_option_is_walked() -> None:
    assert set(WALKS) == TAKING


@pytest.mark.parametrize("name", sorted(NO_MASK))
def test_a_command_without_the_option_refuses_it_and_says_why(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, [*name.split(), "--mask", written_policy(tmp_path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"kafkafs {name} has no --mask: {NO_MASK[name]}" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("name", "words"), SHOWN, ids=lambda each: " ".join(each) if isinstance(each, list) else each
)
def test_a_canary_is_in_no_byte_that_a_command_prints_or_writes(
    source: Path, name: str, words: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run(source, words, out, "--mask", written_policy(tmp_path))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1, 3), result.output
    if "{out}" in words:
        assert out.exists()
    shown = result.stdout_bytes + result.stderr_bytes + written(out)
    assert shown.strip()
    assert found_in(shown) == []


@pytest.mark.parametrize(
    "words",
    [words for _, words in SHOWN if words[0] in ("cat", "cp", "dump", "export") and words[2:3] not in ([".kafkafs"], ["customers-0"])][::3],
    ids=" ".join,
)  # fmt: skip
def test_without_a_mask_the_canary_is_found(source: Path, words: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(source, words, out)
    assert found_in(result.stdout_bytes + written(out)) != []


def test_topics_without_a_mask_are_shown_as_without_the_option(
    source: Path, tmp_path: Path
) -> None:
    policy = written_policy(tmp_path)
    for words in (
        ["cp", "{}", "other-0", "{out}"],
        ["dump", "{}/other-0", "--json"],
        ["export", "{}", "{out}", "-t", "other", "--format", "csv"],
        ["sql", "select * from other", "{}", "--json"],
        ["stats", "{}", "-t", "other", "--keys", "--json"],
    ):
        shown = []
        for place, more in enumerate(([], ["-q", "--mask", policy])):
            out = tmp_path / f"{words[0]}{place}"
            result = run(source, words, out, *more)
            assert result.exit_code == 0, result.output
            data = [
                path.read_bytes()
                for path in sorted(out.rglob("*"))
                if path.is_file() and path.suffix in (".csv", ".jsonl", ".log")
            ]
            shown.append((result.stdout.replace(str(out), ""), data))
        assert shown[0] == shown[1]


def test_fields_without_a_rule_are_equal_in_each_form(source: Path, tmp_path: Path) -> None:
    policy = written_policy(tmp_path, FIELDS_ALONE)
    query = (
        'select "offset", timestamp, value from customers where "offset" in (0, 13) order by all'
    )
    plain, masked = (
        [json.loads(line) for line in run(source, ["sql", query, "{}", "--json"], tmp_path, *more).stdout.splitlines()]
        for more in ([], ["--mask", policy])
    )  # fmt: skip
    assert masked[1] == plain[1]
    assert json.loads(masked[0]["value"]) == {"a": [{}], "n": 1.10, "open": "yes"}
    assert {**masked[0], "value": None} == {**plain[0], "value": None}
    keys = 'select key from customers where "offset" = 0'
    result = run(source, ["sql", keys, "{}", "--json"], tmp_path, "--mask", policy)
    assert json.loads(result.stdout) == {"key": f"key-{CANARY}"}


def test_a_hash_is_the_same_from_each_command(source: Path, tmp_path: Path) -> None:
    policy = written_policy(tmp_path)
    line = json.loads(
        run(source, ["cat", "{}", "customers-0/offset/0"], tmp_path, "--mask", policy).stdout
    )
    row = run(
        source,
        ["sql", 'select key from customers where "offset" = 0', "{}", "--json"],
        tmp_path,
        "--mask",
        policy,
    )
    dumped = [
        json.loads(each)
        for each in run(source, ["dump", "{}/customers-0", "--json", "--to", "1"], tmp_path, "--mask", policy).stdout.splitlines()
    ]  # fmt: skip
    frequent = json.loads(
        run(source, ["stats", "{}", "-t", "customers-dlq", "--keys", "--json"], tmp_path, "--mask", policy).stdout
    )  # fmt: skip
    assert len(line["key"]) == 64
    assert json.loads(row.stdout)["key"] == line["key"]
    assert [each["key"] for each in dumped if each.get("offset") == 0][:1] == [line["key"]]
    assert frequent["frequentKeys"][0]["key"] == line["key"]


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (["cp", "{}", "customers-0/segments", "{out}"], "read records/"),
        (["cp", "{}", "customers-0/key", "{out}"], "search the lines"),
        (["cp", "{}", "customers-0/offset/0.value", "{out}"], "read records/"),
        (["cp", "{}", "customers-0/time/2023/log", "{out}"], "read records/"),
        (["cp", "{}", "time/2023/customers-0", "{out}"], "read records/"),
        (["cp", "{}", "customers-0/records", "{out}", "--values", "hex"], "leave out --values"),
        (["ls", "{}", "customers-0/segments"], "read records/"),
        (["ls", "{}", "customers-0/key"], "search the lines"),
        (["dump", "{}/customers-0"], "needs --json"),
        (["dump", "{}/customers-0", "--print-data-log"], "needs --json"),
        (["dump", "{}/customers-0", "--json", "--verbose"], "leave out --verbose"),
        (["sql", "select 1", "{}", "--allow-files"], "leave out --allow-files"),
        (["export", "{}", "{out}", "--format", "jsonl", "--values", "hex"], "leave out --values"),
        (["stats", "{}", "--verbose"], "leave out --verbose"),
        (["get", "{}", "customers", f"key-{CANARY}"], "use grep --where"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_bytes_are_refused_with_a_way_out(
    source: Path, words: list[str], way: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run(source, words, out, "--mask", written_policy(tmp_path))
    assert (result.exit_code, result.stdout, out.exists()) == (2, "", False), result.output
    assert way in result.stderr


def test_an_export_goes_on_with_the_same_mask_alone(source: Path, tmp_path: Path) -> None:
    words = ["export", "{}", "{out}", "-t", "other", "--format", "csv"]
    policy = written_policy(tmp_path)
    assert run(source, words, tmp_path / "out", "--mask", policy).exit_code == 0
    assert run(source, words, tmp_path / "out", "--mask", policy).exit_code == 0
    assert run(source, words, tmp_path / "out").exit_code == 2
    (tmp_path / "mask.key").write_text("another key of sixteen bytes")
    assert run(source, words, tmp_path / "out", "--mask", policy).exit_code == 2


def test_a_missing_policy_is_an_error_before_anything_is_shown(
    source: Path, tmp_path: Path
) -> None:
    for name, words in SHOWN:
        result = run(source, words, tmp_path / "out", "--mask", str(tmp_path / "none.toml"))
        assert (result.exit_code, result.stdout) == (2, ""), name
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", sorted(set(WALKS) - {"dump", "mount", "get"}))
def test_a_log_in_no_folder_of_a_topic_is_refused(source: Path, name: str, tmp_path: Path) -> None:
    loose = tmp_path / "anything.log"
    loose.write_bytes((source / "customers-0" / f"{0:020}.log").read_bytes())
    words = [str(loose) if word == "{}" else word for word in WALKS[name][0]]
    result = run(source, words, tmp_path / "out", "--mask", written_policy(tmp_path))
    assert (result.exit_code, result.stdout, (tmp_path / "out").exists()) == (2, "", False)
    assert "in no folder such as orders-0" in result.stderr
