"""What people have in hand, and every command: each source opens alike, or is refused with a sentence that helps.

A table of sources by commands: the words of a source that opens, the error of one that does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result

import kafkafs
from engine.errors import SourceError
from kafkafs.cli import COMMANDS, cli
from kafkafs.serve.cluster_view import ClusterView
from tests.kafkafs.sources_at_hand import (
    FIRST,
    IN_FIRST,
    KEY,
    NAME_ONE,
    SAMPLE,
    SOURCES,
    Source,
    controllers_dir,
    one_file,
)


class Command(NamedTuple):
    """How a command is called, and what it says of a partition that opened."""

    words: Callable[[str, Source, Path], list[str]]
    says: Callable[[Result, Source, Path], bool]
    refusal: str = ""


def _partition(source: Source) -> str:
    return f"{source.topic}-{source.number}"


def _lines(count: Callable[[Source], int]) -> Callable[[Result, Source, Path], bool]:
    def says(result: Result, source: Source, _: Path) -> bool:
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        places = {(row["topic"], row["partition"]) for row in rows}
        return (len(rows), places) == (count(source), {(source.topic, source.number)})

    return says


def _text(text: Callable[[Source], str]) -> Callable[[Result, Source, Path], bool]:
    return lambda result, source, _: text(source) in result.stdout


def _cp_says(_: Result, source: Source, out: Path) -> bool:
    return (out / "copied" / _partition(source) / "segments" / FIRST.name).exists() or any(
        (out / "copied" / _partition(source) / "segments").iterdir()
    )


TABLE = {
    "ls": Command(lambda path, *_: ["ls", path], _text(lambda each: f"{_partition(each)}/")),
    "browse": Command(
        lambda path, source, _: ["browse", path, f"{_partition(source)}/offset/0.."],
        _text(lambda each: f"0 of 0..{each.records}, "),
    ),
    "cat": Command(lambda path, *_: ["cat", path], _lines(lambda each: each.records)),
    "cat a range": Command(
        lambda path, *_: ["cat", path, "--from", "5", "--to", "7"], _lines(lambda _: 2)
    ),
    "cat a path": Command(
        lambda path, source, _: ["cat", path, f"{_partition(source)}/offset/5"], _lines(lambda _: 1)
    ),
    "head": Command(lambda path, *_: ["head", "-n", "3", path], _lines(lambda _: 3)),
    "tail": Command(lambda path, *_: ["tail", "-n", "3", path], _lines(lambda _: 3)),
    "cp": Command(
        lambda path, source, out: ["cp", path, f"{_partition(source)}/segments", f"{out}/copied"],
        lambda _, __, out: any((out / "copied").iterdir()),
    ),
    "grep": Command(lambda path, *_: ["grep", "", path], _lines(lambda each: each.records)),
    "get": Command(
        lambda path, source, _: ["get", path, source.topic or "x", KEY, "--all"],
        lambda result, source, _: (
            json.loads(result.stdout.splitlines()[0])["topic"] == source.topic
        ),
    ),
    "offsets": Command(
        lambda path, *_: ["offsets", path],
        _text(lambda each: f"{each.topic}:{each.number}:{each.records}\n"),
    ),
    "sql": Command(
        lambda path, source, _: ["sql", f'select count(*) n from "{source.topic}"', path, "--json"],
        _text(lambda each: f'"n":{each.records}'),
    ),
    "stats": Command(
        lambda path, *_: ["stats", path], _text(lambda each: f"{each.records:,} records")
    ),
    "du": Command(lambda path, *_: ["du", path], _text(_partition)),
    "check": Command(
        lambda path, *_: ["check", path],
        _text(lambda each: f"{each.records:,} records"),
    ),
    "topics": Command(
        lambda path, *_: ["topics", path], _text(lambda each: f"Topic: {each.topic}")
    ),
    "dump": Command(
        lambda path, *_: ["dump", path],
        lambda result, *_: "baseOffset: 0 " in result.stdout,
        "For input string",  # as Kafka's tool says it, which then prints nothing
    ),
    "export": Command(
        lambda path, _, out: ["export", path, f"{out}/lake", "--format", "jsonl"],
        lambda _, source, out: any((out / "lake").rglob(f"*{source.topic}*")),
    ),
    "rebuild": Command(
        lambda path, _, out: ["rebuild", path, f"{out}/rebuilt"],
        lambda _, source, out: (out / "rebuilt" / _partition(source)).is_dir(),
    ),
    "report": Command(
        lambda path, _, out: ["report", path, "-o", f"{out}/page.html"],
        lambda _, source, out: (source.topic or "") in (out / "page.html").read_text(),
    ),
    "groups": Command(
        lambda path, *_: ["groups", path], lambda *_: True, "no partition of __consumer_offsets"
    ),
    "transactions": Command(
        lambda path, *_: ["transactions", path],
        lambda *_: True,
        "no partition of __transaction_state",
    ),
    "plan": Command(
        lambda path, *_: ["plan", path], lambda *_: True, "a broker loads|a broker starts on"
    ),
}
ELSEWHERE = {
    *("completion", "help", "top", "umount", "spark", "schemas"),  # no logs of a partition
    *("mount", "serve"),  # below, and in tests of their own
    "diff",  # compares two sources: test_time_machine.py
    "erase",  # takes log dirs alone: test_erasing.py has what it says of others
    "recover",  # takes log dirs alone: test_recovering.py has what it says of others
}


def run(words: list[str]) -> tuple[Result, str]:
    result = CliRunner().invoke(cli, words)
    error = result.exception
    text = str(error) if isinstance(error, SourceError) else ""
    hint = getattr(error, "hint", "")
    return result, f"{result.stderr}{text} {hint}"


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Source]:
    found = SOURCES[request.param]
    path = found.make(tmp_path)
    if not os.path.exists(path):
        pytest.skip(f"no {path} here")
    return str(path), found


def test_every_command_is_in_the_table() -> None:
    assert {name.split()[0] for name in TABLE} | ELSEWHERE == set(COMMANDS)


@pytest.mark.parametrize("command", TABLE)
def test_a_source_opens_alike_or_is_refused_with_a_sentence(
    source: tuple[str, Source], command: str, tmp_path: Path
) -> None:
    path, found = source
    out = tmp_path / "out"
    out.mkdir()
    words, says, refusal = TABLE[command]
    result, error = run(words(path, found, out))
    if (result.exit_code, found.refusal, command) == (1, NAME_ONE, "dump"):
        assert "unknown format" in error  # it prints any .log file
    elif found.topic is None:
        assert any(words in error for words in found.refusal.split("|"))
        assert result.exception is not None
    elif result.exit_code:
        assert any(part and part in error for part in refusal.split("|")), error
    else:
        assert says(result, found, out)


def test_python_and_a_server_show_the_same(source: tuple[str, Source]) -> None:
    path, found = source
    if found.topic is None:
        with pytest.raises(SourceError) as caught:
            kafkafs.open(path)
        assert found.refusal.split("|")[0] in f"{caught.value} {caught.value.hint}"
        return
    with kafkafs.open(path) as opened:
        assert list(opened.topics) == [found.topic]
        assert opened.scan(found.topic).count() == found.records
        view = ClusterView(opened._logs)
        assert {name: list(each.logs) for name, each in view.topics().items()} == {
            found.topic: [found.number]
        }


@pytest.mark.parametrize("kind", ["a folder above log dirs", "log dirs called like partitions"])
@pytest.mark.parametrize("command", sorted(set(TABLE) - {"cp", "get", "cat a path"}))
def test_below_takes_the_log_dirs_of_a_folder(kind: str, command: str, tmp_path: Path) -> None:
    path = SOURCES[kind].make(tmp_path)
    out = tmp_path / "out"
    out.mkdir()
    (log_dir_below,) = (each.parent for each in path.rglob("meta.properties"))
    here = Source(lambda _: path, "orders", 0)
    words = TABLE[command].words
    found = run([*words(str(path), here, out / "a"), "--below"])
    (out / "a").mkdir(exist_ok=True)
    expected = run(words(str(log_dir_below), here, out / "b"))
    assert found[0].exit_code == expected[0].exit_code
    assert found[0].stdout.replace(f"{out}/a", "") == expected[0].stdout.replace(f"{out}/b", "")


@pytest.mark.parametrize(
    ("rename", "shown"),
    [
        ("payments=orders-3", "orders-3"),
        ("payments-0=orders-3", "orders-3"),
        ("payments=orders", "orders-0"),
    ],
)
def test_a_file_is_rebuilt_and_served_as_the_partition_that_it_is(
    rename: str, shown: str, tmp_path: Path
) -> None:
    path = one_file("payments.log")(tmp_path)
    result, error = run(["rebuild", str(path), f"{tmp_path}/rebuilt", "--rename", rename])
    assert (result.exit_code, error) == (0, " ")
    lines = run(["cat", f"{tmp_path}/rebuilt/{shown}"])[0].stdout.splitlines()
    assert len(lines) == IN_FIRST
    with kafkafs.open(path) as opened:
        view = ClusterView(opened._logs, renames=dict([rename.split("=")]))
        (topic,) = view.topics().values()
        (number,) = topic.logs
        assert f"{topic.name}-{number}" == shown


@pytest.mark.parametrize(
    ("renames", "reason"),
    [
        (["orders-0=pay"], "orders-0 is a partition, and 'pay' is no name of one"),
        (["nobody=pay"], "no topic or partition 'nobody'"),
        (["txn-0=orders-1"], "would both be orders-1"),
        (["orders=a b"], "holds other characters"),
        (["orders"], "write NAME=VALUE"),
    ],
)
def test_a_rename_that_cannot_be_is_refused(
    renames: list[str], reason: str, tmp_path: Path
) -> None:
    words = [word for each in renames for word in ("--rename", each)]
    result, error = run(["rebuild", str(SAMPLE), f"{tmp_path}/rebuilt", *words])
    assert result.exit_code == 2
    assert reason in error


def test_partitions_and_topics_are_served_under_new_names() -> None:
    with kafkafs.open(SAMPLE) as opened:
        view = ClusterView(opened._logs, renames={"orders": "pay-2", "txn-0": "orders-1"})
        served = {name: list(each.logs) for name, each in view.topics().items()}
    assert served == {"orders": [1], "pay-2": [0, 1]}


CONTROLLER = "this is a KRaft controller's log dir: it has the metadata log alone"


@pytest.mark.parametrize(
    "words",
    [
        ["cat", "SOURCE", "-t", "orders"],
        ["cat", "SOURCE", "orders-0/offset/3"],
        ["check", "SOURCE", "-p", "orders-0"],
        ["export", "SOURCE", "TARGET"],
        ["get", "SOURCE", "orders", "k"],
        ["groups", "SOURCE"],
        ["head", "SOURCE", "orders-0"],
        ["rebuild", "SOURCE", "TARGET", "-t", "orders"],
        ["sql", "select * from orders", "SOURCE"],
        ["stats", "SOURCE", "-t", "orders"],
        ["transactions", "SOURCE"],
    ],
    ids=lambda words: words[0],
)
def test_a_controllers_log_dir_is_named_when_records_are_asked_for(
    words: list[str], tmp_path: Path
) -> None:
    named = {"SOURCE": str(controllers_dir(tmp_path)), "TARGET": str(tmp_path / "out")}
    result, error = run([named.get(word, word) for word in words])
    assert result.exit_code
    assert CONTROLLER in f"{error}{result.exception}"


def test_python_names_a_controllers_log_dir_and_takes_the_log_dirs_below(tmp_path: Path) -> None:
    with kafkafs.open(controllers_dir(tmp_path)) as opened:
        with pytest.raises(KeyError, match=CONTROLLER):
            opened["orders"]
        assert opened["__cluster_metadata", 0]
    above = SOURCES["a folder above log dirs"].make(tmp_path)
    (one,) = (each.parent for each in above.rglob("meta.properties"))
    with kafkafs.open(above, below=True) as opened, kafkafs.open(one) as expected:
        assert opened.scan("orders").count() == expected.scan("orders").count() > 0
    with kafkafs.open(one, below=True) as opened:
        assert "orders" in opened.topics
    with pytest.raises(SourceError, match="ZooKeeper"):
        kafkafs.open(SOURCES["ZooKeeper"].make(tmp_path), below=True)
