"""`grep --where` prints the records for which jq says that an expression is true of their lines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafkafs.cli import cli
from kafkafs.records.conditions import where
from kafkafs.records.conditions.where import Where, WhereError
from tests.fixtures_data import log_dir

SAMPLE = str(log_dir("sample"))
LARGE = ".value.total > 500"


def grep(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["grep", *arguments])


@pytest.mark.parametrize(
    "expression",
    [
        LARGE,
        '.value.total > 500 and .key == "k7"',
        '.value.city | IN("Lagos", "Oslo")',
        'any(.headers[]; .key == "dup")',
        ".value.no_such_field",
        "select(.offset < 10)",
        ".offset # a comment",
    ],
)
def test_the_program_jq_selects_the_same_records(expression: str) -> None:
    every = grep("-v", "-e", "no such text", SAMPLE, "--topic", "orders").stdout
    command = ["jq", "-c", f"select({expression}\n)"]
    expected = subprocess.run(command, input=every, capture_output=True, text=True, check=True)
    offsets = [
        (line["partition"], line["offset"])
        for line in map(json.loads, expected.stdout.splitlines())
    ]
    lines = map(
        json.loads, grep("--where", expression, SAMPLE, "--topic", "orders").stdout.splitlines()
    )
    assert [(line["partition"], line["offset"]) for line in lines] == offsets


def test_a_pattern_and_a_condition_both_have_to_match() -> None:
    both = grep("-c", "-e", "Lagos", "--where", LARGE, SAMPLE).stdout
    lines = map(json.loads, grep("Lagos", SAMPLE).stdout.splitlines())
    assert int(both) == sum(line["value"]["total"] > 500 for line in lines) > 0


@pytest.mark.parametrize(
    "options",
    [
        ["-l"],
        ["-m", "3"],
        ["-j", "2"],
        ["-n"],
        ["--committed"],
        ["-A", "1"],
        ["--from", "500"],
        ["--format", "%o "],
    ],
)
def test_the_other_options_take_the_records_that_are_left(options: list[str]) -> None:
    numbers = [
        line["value"]["id"]
        for line in map(
            json.loads, grep("--where", LARGE, SAMPLE, "--topic", "orders").stdout.splitlines()
        )
    ]
    pattern = "|".join(f'"id": {number},' for number in numbers)
    assert (
        grep(*options, "--where", LARGE, SAMPLE, "--topic", "orders").stdout
        == (grep(*options, pattern, SAMPLE, "--topic", "orders").stdout)
        != ""
    )


def test_a_record_for_which_the_condition_fails_does_not_match_and_is_counted() -> None:
    condition = 'if .offset < 3 then error("no") else true end'
    found = grep("-c", "--where", condition, SAMPLE, "orders-0")
    assert (found.exit_code, found.stdout) == (0, "997\n")
    assert found.stderr in {
        f"kafkafs: --where failed for 3 records, such as orders-0:{n}: no\n" for n in range(3)
    }


@pytest.mark.parametrize("condition", [".offset.x", ".offset[]", '.topic | .["x"]'])
def test_records_that_lack_a_field_are_told_only_if_no_record_met_the_condition(
    condition: str,
) -> None:
    some = f"if .offset < 3 then {condition} else true end"
    found = grep("-c", "--where", some, SAMPLE, "orders-0")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "997\n", "")
    found = grep("-c", "--where", condition, SAMPLE, "orders-0")
    assert (found.exit_code, found.stdout) == (1, "0\n")
    assert "--where asks for a field that 1,000 records lack, such as orders-0:" in found.stderr


def test_a_condition_counts_once_for_each_record_whatever_it_yields() -> None:
    for condition, number in (
        ("empty", "0"),
        (".offset < 3, true", "3"),
        ("(null, true)", "0"),
        ("0", "1000"),
        ('"e"', "1000"),
        ("true, error", "1000"),
        ("first(range(.offset; 1000; 100))", "1000"),
    ):
        assert grep("-c", "--where", condition, SAMPLE, "orders-0").stdout == f"{number}\n"


@pytest.mark.parametrize(
    ("arguments", "status", "reason"),
    [
        (["--where", ".offset ==", SAMPLE], 3, "--where is no expression of jq"),
        (["--where", 'import "/etc/passwd" as $p; true', SAMPLE], 3, "no expression of jq"),
        (["--where", ".offset", "-v", SAMPLE], 2, "name one with -e"),
        (["--where", ".offset", "-o", SAMPLE], 2, "name one with -e"),
    ],
)
def test_errors_are_one_sentence(arguments: list[str], status: int, reason: str) -> None:
    found = grep(*arguments)
    assert found.exit_code == status
    assert reason in found.stderr


@pytest.mark.parametrize("endless", ["def f: f; f", "[range(1e12)] | length", "def f: [f]; f"])
def test_an_expression_without_an_end_ends_the_search(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, "MOST_SECONDS", 1)
    monkeypatch.setattr(where, "MOST_MEMORY", 64 << 20)
    found = grep("-c", "--where", endless, SAMPLE, "orders-0")
    assert found.exit_code == 3
    assert "--where took more than 1 seconds or 64 MiB" in found.stderr


def test_an_expression_sees_no_environment_and_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKAFS_SECRET", "x")
    assert (
        grep("-c", "--where", '"KAFKAFS_SECRET" | in($ENV + env)', SAMPLE, "orders-0").stdout
        == "0\n"
    )
    (tmp_path / "m.jq").write_text("{};")
    module = json.dumps(str(tmp_path / "m"))
    found = grep("-c", "--where", f"{module} | modulemeta | true", SAMPLE, "orders-0")
    assert (found.stdout, "--where failed for 1,000 records" in found.stderr) == ("0\n", True)


def test_a_line_that_is_too_long_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(where, "MOST_LINE", 50)
    with Where(".a", 1) as condition:
        long = b'{"a":1,"b":"%s"}' % (b"x" * 50)
        assert condition.marks(
            [b'{"a":1}', long, b"{}"], ["t-0:0", "t-0:1", "t-0:2"].__getitem__
        ) == [
            True,
            False,
            False,
        ]
        assert condition.failed == 1
        assert condition.first is not None
        assert condition.first[0] == "t-0:1"


@pytest.mark.parametrize("missing", ["jq", "orjson"])
def test_without_the_extra_the_error_names_it(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(WhereError, match=rf"needs {missing}: pip install 'kafkafs\[where\]'"):
        Where(".a", 1)


def test_a_search_without_a_condition_needs_no_extra() -> None:
    code = "import sys; sys.modules |= {'jq': None, 'orjson': None}; from kafkafs.cli import main; main()"
    command = [sys.executable, "-c", code, "grep", "-c", "Lagos", SAMPLE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) > 0
