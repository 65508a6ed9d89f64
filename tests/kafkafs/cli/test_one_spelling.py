"""One spelling of an option: a table of all options of all commands, in which a name means one thing, and a thing has one name."""

from __future__ import annotations

from collections import defaultdict

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.fixtures_data import log_dir
from tests.kafkafs.cli.test_grammar import ALL, options_of

CURRENT = str(log_dir("current"))
OPTIONS: dict[str, dict[str, click.Option]] = defaultdict(dict)
"""The options by name and command."""
for _case in ALL:
    for _name, _option in options_of(_case.values[1]).items():
        OPTIONS[_name][_case.values[0]] = _option

SEVERAL = {
    # Letters of the programs that the commands are called like.
    "-c": "grep counts, kcat ends after N records",
    "-f": "a daemon's foreground, tail follows",
    "-l": "long lists of ls, names of grep, lazy unmounts",
    "-n": "line numbers of grep, number of records of head",
    "-o": "offsets of kcat, matches of grep, options of mount, the output of a compiler",
    "--export": "that of kafka-consumer-groups, schemas to a directory",
    "--context": "records around those of grep, contexts of a schema registry",
    # The same thing of another object, which the help names.
    "--at": "one moment, or in diff two",
    "--clean": "in plan the default is what the log dir says, in rebuild it is about a mode",
    "--unclean": "as --clean",
    "--cluster-id": "kept or new, or one that is given",
    "--explain": "how a query runs, what the end of a log is known by",
    "--nodes": "those of a new cluster, or all that clients are shown",
    "--committed": "offsets says what it means for an offset",
    "--debug": "what is logged differs",
    "--decode": "the two defaults differ, as forms of files hold JSON and queries columns",
    "--deleted": "rebuild brings back what readers read",
    "--format": "of what is written: records, or files",
    "--json": "what an object is differs",
    "--list": "groups, or topics",
    "--log-file": "of which process",
    "--partitioner": "the key is an argument, or a condition",
    "--records": "plan reads them, or not; erase takes a list of them",
    "--verify": "a manifest in a log dir, or one that was kept",
    "--where": "printed, or erased",
    "--quiet": "grep -q prints no results either",
    "-q": "as --quiet",
    "--rename": "an export has whole topics",
    "--schemas": "in mount a mount's option, which has the default",
    "--snapshot": "of a tree, or of what clients see",
    "--spark": "a command reads with it, a job has its own master",
    "--master": "as --spark",
    "--spark-conf": "as --spark",
    "--conf": "as --spark",
    "--topic": "an export has whole topics",
    "-t": "as --topic",
    "--topic-id": "a restored topic has one by default",
    "--values": "the forms of files",
    "--compression": "of files, or of batches",
    "--foreground": "serve stays there by default",
}
FAMILIES = (
    {"--committed", "--isolation-level"},
    {"--internal", "--exclude-internal", "--exclude-internal-topics"},
    {"--spark", "--master"},
    {"--spark-conf", "--conf"},
    {"--from", "--to", "--offset"},
    {"-n", "-c", "--max-messages"},
    {"--utc", "--local"},
    {"--topic", "-t"},
    {"--partition", "-p"},
    {"--jobs", "-j"},
)
"""Names of one thing: Kafka's, kcat's or Spark's beside our own."""


def meaning(option: click.Option) -> tuple[object, ...]:
    """What an option says of itself."""
    return option.help, option.metavar, option.is_flag, option.multiple


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_name_means_one_thing_in_all_commands(name: str) -> None:
    found = {meaning(each) for each in OPTIONS[name].values()}
    assert len(found) <= 1 or name in SEVERAL, {
        command: each.help for command, each in OPTIONS[name].items()
    }


def test_each_exception_is_needed() -> None:
    once = {
        name for name in SEVERAL if len({meaning(each) for each in OPTIONS[name].values()}) == 1
    }
    assert once == set()
    assert set(OPTIONS) >= SEVERAL.keys()


def test_a_thing_has_the_same_names_in_all_commands() -> None:
    names: dict[str, set[frozenset[str]]] = defaultdict(set)
    for case in ALL:
        for option in options_of(case.values[1]).values():
            own = {name for name in option.opts if name not in ("-o", "-q")}
            names[option.help or ""].add(frozenset(own))
    assert {text: found for text, found in names.items() if len(found) > 1} == {}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: "-".join(sorted(family)))
def test_a_command_with_one_name_of_a_thing_has_them_all(family: set[str]) -> None:
    for case in ALL:
        command, options = case.values
        has = family & options_of(options).keys()
        if command == "grep" and "-n" in family:
            continue  # grep's own
        assert has in (set(), family), command


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["topics", CURRENT, "--list", "--exclude-internal"],
         ["topics", CURRENT, "--list", "--exclude-internal-topics"]),
        (["offsets", CURRENT, "--exclude-internal"],
         ["offsets", CURRENT, "--exclude-internal-topics"]),
        (["head", CURRENT, "orders-0", "-n", "2"], ["head", CURRENT, "orders-0", "-c", "2"]),
        (["head", CURRENT, "orders-0", "--max-messages", "2"],
         ["cat", CURRENT, "orders-0/offset/0..2"]),
        (["cat", CURRENT, "-p", "orders-0", "-o", "beginning", "--to", "3"],
         ["cat", CURRENT, "-p", "orders-0", "--from", "0", "--to", "3"]),
        (["cat", CURRENT, "-p", "orders-0", "--offset", "earliest", "--to", "3"],
         ["cat", CURRENT, "-p", "orders-0", "--to", "3"]),
        (["cat", CURRENT, "-p", "orders-0", "-o", "-2"], ["tail", CURRENT, "orders-0", "-n", "2"]),
        (["cat", CURRENT, "-p", "orders-0", "-o", "s@0", "-o", "e@1700000010000"],
         ["cat", CURRENT, "-p", "orders-0", "--from", "@0", "--to", "@1700000010000"]),
        (["grep", "-c", "", CURRENT, "orders-0", "--offset", "7"],
         ["grep", "-c", "", CURRENT, "orders-0", "--from", "7"]),
        (["sql", 'select count(*) from orders', CURRENT, "-o", "7"],
         ["sql", 'select count(*) from orders', CURRENT, "--from", "7"]),
        (["sql", 'select count(*) from orders', CURRENT, "--csv"],
         ["sql", 'select count(*) from orders', CURRENT, "--format", "csv"]),
        (["sql", 'select count(*) from orders', CURRENT, "--json"],
         ["sql", 'select count(*) from orders', CURRENT, "--format", "jsonl"]),
        (["dump", f"{CURRENT}/orders-0", "--json", "-o", "-2"],
         ["dump", f"{CURRENT}/orders-0", "--format", "jsonl", "-o", "-2"]),
    ],
    ids=lambda words: " ".join(words).replace(CURRENT, "SOURCE"),
)  # fmt: skip
def test_the_names_of_a_thing_do_the_same(words: list[str], same: list[str]) -> None:
    results = [CliRunner().invoke(cli, each) for each in (words, same)]
    assert [each.exit_code for each in results] == [0, 0], results[0].output
    assert results[0].stdout == results[1].stdout != ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "stored"], "kafkafs groups prints it"),
        (["-o", "soon"], "is none of beginning, end, N, -N"),
        (["-o", "5", "--from", "6"], "--from 6 and --offset 5 are the same bound"),
        (["-o", "e@5", "-o", "e@6"], "--offset e@5 and --offset e@6 are the same bound"),
        (["-o", "6", "--to", "5"], "--offset 6 is not before --to 5, and --to is exclusive"),
    ],
)
def test_an_offset_that_means_nothing_is_an_error_of_usage(words: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, ["cat", CURRENT, *words])
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("command", ["cat", "head", "tail"])
def test_the_end_of_a_log_has_no_records(command: str) -> None:
    done = CliRunner().invoke(cli, [command, CURRENT, "-t", "orders", "-o", "end"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "there are no records in the range" in done.stderr
