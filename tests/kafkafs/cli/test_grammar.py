"""One grammar for all commands: every command of `kafkafs` is looked at, so that a new one has to keep it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from kafkafs.cli.arguments import jobs_option, json_option, values_option
from kafkafs.cli.options.partitions import CHOICE_OPTIONS
from kafkafs.cli.options.times import at_option, range_options
from kafkafs.cli.options.verbosity import quiet_option, verbosity_options
from tests.fixtures_data import log_dir

SAMPLE = str(log_dir("sample"))


def commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Every command that is no group, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        elif command is not None:
            yield pytest.param(" ".join([*path, name]), command, id="-".join([*path, name]))


ALL = list(commands())
every_command = pytest.mark.parametrize(("name", "command"), ALL)


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options of a command by each of their names."""
    return {
        name: option
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }


def made_by(*decorators: Callable[[Any], Any]) -> dict[str, click.Option]:
    """The options that decorators add."""

    def body() -> None:
        """Do nothing."""

    command: Any = body
    for decorator in decorators:
        command = decorator(command)
    return options_of(click.command()(command))


SHARED = made_by(
    *CHOICE_OPTIONS, range_options, at_option, json_option, jobs_option, values_option,
    verbosity_options,
)  # fmt: skip
OWN_HELP = {
    "--json": "what an object is differs by command",
    "--quiet": "grep -q prints no results either",
    "--values": "mount has no default of its own: -o values=… has one",
}
OTHER_MEANING = {
    ("spark restore", "--topic"): "names topics of an export, and no partition",
    ("spark restore", "-t"): "names topics of an export, and no partition",
    ("grep", "-v"): "as in grep",
    ("grep", "-o"): "as in grep: only what matches",
    ("mount", "-o"): "as in mount(8): options",
    ("serve", "-o"): "as in mount: options",
    ("report", "-o"): "as in compilers: the file to write",
    ("diff", "--at"): "may be given twice",
}


@every_command
def test_an_option_with_a_shared_name_is_the_shared_option(
    name: str, command: click.Command
) -> None:
    for option_name, option in options_of(command).items():
        shared = SHARED.get(option_name)
        if shared is None or (name, option_name) in OTHER_MEANING:
            continue
        own = {letter for of, letter in OTHER_MEANING if of == name}
        assert set(option.opts) == set(shared.opts) - own, option_name
        assert (option.metavar, option.is_flag, option.multiple) == (
            shared.metavar,
            shared.is_flag,
            shared.multiple,
        )
        assert option.help == shared.help or OWN_HELP.keys() & option.opts, option_name


READS_NOTHING = {
    "completion": "prints a script",
    "help": "prints a page",
    "spark pack": "writes its own code",
    "top": "looks at a daemon, again and again",
}


@every_command
def test_a_command_that_reads_a_source_is_quiet_or_verbose(
    name: str, command: click.Command
) -> None:
    has = {"--quiet", "--verbose"} & options_of(command).keys()
    assert len(has) == (0 if name in READS_NOTHING else 2)


PRINTS_NO_FACTS = {
    "browse": "shows screens; ls, cat and check have their facts",
    "cat": "prints bytes of files",
    "cp": "writes files",
    "completion": "prints a script",
    "get": "prints record lines, or the bytes of a value",
    "head": "prints record lines",
    "help": "prints a page",
    "mount": "prints nothing",
    "serve": "prints properties for clients; they read the facts",
    "spark pack": "writes its own code",
    "tail": "prints record lines",
    "umount": "prints nothing",
}


@every_command
def test_a_command_that_prints_facts_prints_them_as_json(name: str, command: click.Command) -> None:
    assert ("--json" in options_of(command)) == (name not in PRINTS_NO_FACTS)


ALL_PARTITIONS = {
    "spark restore": "restores whole topics",
    "topics": "describes whole topics",
}
TAKES_A_PATH = {"browse", "cp", "ls", "mount"}
TAKES_A_TOPIC = {"get"}
READS_THE_REGISTRY = {"schemas"}
READS_A_CLUSTER = {"diff"}


@every_command
def test_a_command_that_takes_several_partitions_lets_choose_them(
    name: str, command: click.Command
) -> None:
    has = {"--topic", "--partition"} & options_of(command).keys()
    if name in READS_NOTHING or name in TAKES_A_PATH or name == "umount":
        assert has == set()
    elif name in TAKES_A_TOPIC:
        assert has == {"--partition"}
    elif name in READS_THE_REGISTRY | READS_A_CLUSTER:
        assert has == set()
    else:
        assert has == ({"--topic"} if name in ALL_PARTITIONS else {"--topic", "--partition"})


@every_command
def test_options_with_times_come_with_their_zone(name: str, command: click.Command) -> None:
    options = options_of(command)
    takes_times = any("TIME" in (each.metavar or "") for each in options.values())
    assert ("--utc" in options and "--local" in options) == takes_times
    assert ("--from" in options) == ("--to" in options)


def test_only_grep_has_a_text_of_its_own_for_quiet() -> None:
    own = [
        param.values[0]
        for param in ALL
        if (option := options_of(param.values[1]).get("--quiet"))
        and option.help != made_by(quiet_option())["--quiet"].help
    ]
    assert own == ["grep"]


# What the options do

DELETED = "old-0.0123456789abcdef0123456789abcdef-delete"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log dir with a flipped bit in orders-0, a folder that is no partition, and a copy that is being deleted."""
    folder = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(SAMPLE, folder)
    log = min((folder / "orders-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[5000] ^= 1
    log.write_bytes(content)
    (folder / "lost+found").mkdir()
    (folder / DELETED).mkdir()
    return str(folder)


RUNS: dict[str, Callable[[str, Path], list[str]]] = {
    "browse": lambda source, _: [source, "orders-0/offset/0.."],
    "cat": lambda source, _: [source, "orders-0/offset/0..", "no/such"],
    "check": lambda source, _: [source, "-j", "1"],
    "cp": lambda source, target: [source, "orders-0/records", str(target / "copy")],
    "diff": lambda source, _: [source, "--at", "@0"],
    "dump": lambda source, _: [f"{source}/orders-0"],
    "du": lambda source, _: [source],
    "erase": lambda source, _: ["--plan", "--key", "nobody", source],
    "export": lambda source, target: [source, str(target / "exported"), "-j", "1"],
    "get": lambda source, _: [source, "orders", "nobody"],
    "grep": lambda source, _: ["-c", "nobody", source],
    "groups": lambda source, _: [source],
    "head": lambda source, _: [source, "-n", "400", "orders-0", "no-1"],
    "ls": lambda source, _: [source, "-l"],
    "offsets": lambda source, _: [source],
    "plan": lambda source, _: ["--unclean", source],
    "rebuild": lambda source, target: [source, str(target / "rebuilt"), "--dry-run"],
    "recover": lambda source, _: ["--plan", source],
    "report": lambda source, target: [source, "-o", str(target / "report.html"), "-j", "1"],
    "schemas": lambda source, _: [source],
    "sql": lambda source, _: ["select count(*) from orders", source, "-j", "1"],
    "stats": lambda source, _: [source, "-j", "1"],
    "tail": lambda source, _: [source, "-n", "1000", "orders-0"],
    "topics": lambda source, _: [source, "nobody"],
    "transactions": lambda source, _: [source, "--open"],
}
"""A call of each command that reads a source here."""


def call(name: str, source: str, target: Path, *more: str) -> Result:
    target.mkdir()
    return CliRunner().invoke(cli, [name, *more, *RUNS[name](source, target)])


def test_each_command_that_reads_is_called_here() -> None:
    called = {"mount", "serve", "umount", *RUNS}
    assert {
        param.values[0] for param in ALL if not param.values[0].startswith("spark")
    } - READS_NOTHING.keys() == called


@pytest.mark.parametrize("name", RUNS)
def test_quiet_hides_no_error_no_result_and_no_exit_status(
    name: str, damaged: str, tmp_path: Path
) -> None:
    usual = call(name, damaged, tmp_path / "usual")
    quiet = call(name, damaged, tmp_path / "quiet", "--quiet")
    assert quiet.exit_code == usual.exit_code
    lines = usual.stderr.replace("/usual/", "/quiet/").splitlines(keepends=True)
    note = "kafkafs: read orders-0, "  # what get has read
    assert quiet.stderr == "".join(line for line in lines if not line.startswith(note))
    assert name == "grep" or quiet.stdout.replace("/quiet/", "/usual/") == usual.stdout
    assert name != "grep" or quiet.stdout == ""


@pytest.mark.parametrize("name", RUNS)
def test_verbose_says_what_is_read_on_standard_error_alone(
    name: str, damaged: str, tmp_path: Path
) -> None:
    usual = call(name, damaged, tmp_path / "usual")
    verbose = call(name, damaged, tmp_path / "verbose", "--verbose")
    assert verbose.exit_code == usual.exit_code
    assert verbose.stdout.replace("/verbose/", "/usual/") == usual.stdout
    said = verbose.stderr.splitlines()
    assert any(line.startswith(f"kafkafs: reading {damaged}") for line in said)
    assert any(line.startswith(f"kafkafs: {name} took ") for line in said)
    assert set(usual.stderr.replace("/usual/", "/verbose/").splitlines()) <= set(said)


def test_verbose_names_what_is_skipped_and_why(damaged: str) -> None:
    said = CliRunner().invoke(cli, ["offsets", "--verbose", damaged, "-t", "orders"]).stderr
    lines = said.splitlines()
    assert lines[:-1] == [
        f"kafkafs: reading {damaged}: 4 partitions",
        f"kafkafs: apart from the logs: {damaged}/{DELETED}: a broker was deleting it",
        f"kafkafs: skipped: {damaged}/lost+found: not the name of a partition's folder",
        "kafkafs: chosen: 2 of 4 partitions",
    ]


def test_quiet_and_verbose_exclude_each_other() -> None:
    for words in (["-q", "--verbose"], ["--verbose", "-q"]):
        done = CliRunner().invoke(cli, ["ls", *words, SAMPLE])
        assert done.exit_code == 2
        assert "--quiet and --verbose cannot be used together" in done.stderr


ISOLATED = {
    "head": [str(log_dir("current")), "-n", "1000", "-t", "txn,open-txn"],
    "tail": [str(log_dir("current")), "-n", "1000", "-t", "txn,open-txn"],
    "get": [str(log_dir("current")), "txn", "nobody"],
    "grep": ["-c", "", str(log_dir("current")), "-t", "txn,open-txn"],
    "offsets": [str(log_dir("current")), "-t", "txn,open-txn"],
    "sql": ['select count(*) from "open-txn"', str(log_dir("current"))],
}


@pytest.mark.parametrize("name", ISOLATED)
def test_kafkas_name_of_an_isolation_level_means_the_same(name: str) -> None:
    def output(*more: str) -> str:
        result = CliRunner().invoke(cli, [name, *ISOLATED[name], *more])
        assert result.exit_code in (0, 1), result.output
        return result.output

    assert output("--isolation-level", "read_committed") == output("--committed")
    assert output("--isolation-level", "read_uncommitted") == output()
    assert name == "get" or output("--committed") != output()
    both = ["--committed", "--isolation-level", "read_uncommitted"]
    assert CliRunner().invoke(cli, [name, *ISOLATED[name], *both]).exit_code == 2
