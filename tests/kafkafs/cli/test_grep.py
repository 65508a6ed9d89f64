"""`kafkafs grep` takes the options of grep, and means by them what grep means, with records for lines."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from tests.fixtures_data import log_dir

SAMPLE = str(log_dir("sample"))


def grep(*arguments: str) -> list[str]:
    """The lines that a search prints."""
    done = CliRunner().invoke(cli, ["grep", *arguments])
    assert done.exit_code in (0, 1), done.output
    return done.stdout.splitlines()


def offsets(lines: Iterable[str]) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in map(json.loads, lines)]


def count(*arguments: str) -> int:
    (line,) = grep("-c", *arguments)
    return int(line)


ALL = count("", SAMPLE)
LAGOS = count("Lagos", SAMPLE)


def test_v_selects_the_others() -> None:
    assert count("-v", "Lagos", SAMPLE) == ALL - LAGOS > 0
    assert count("-v", "", SAMPLE) == 0


def test_several_patterns_may_match() -> None:
    both = count("-e", "Lagos", "-e", "Zürich", SAMPLE)
    assert both == LAGOS + count("Zürich", SAMPLE) == count("-E", "Lagos|Zürich", SAMPLE)
    assert count("-F", "-e", "Lagos", "-e", "a.b", SAMPLE) == LAGOS
    done = CliRunner().invoke(cli, ["grep", "-e", "a", "-e", r"(b)\1", SAMPLE])
    assert done.exit_code == 2
    assert "give groups names" in done.stderr


def test_w_takes_whole_words_of_any_letters() -> None:
    assert count("-w", "Lago", SAMPLE) == count("-w", "Zür", SAMPLE) == 0
    assert count("-w", "Zürich", SAMPLE) == count("Zürich", SAMPLE) > 0
    assert count("-w", '"city"', SAMPLE) == count('"city"', SAMPLE) > 0


def test_l_prints_partitions_once() -> None:
    assert grep("-l", "Lagos", SAMPLE) == ["orders-0", "orders-1", "txn-0"]
    assert [json.loads(line) for line in grep("-l", "--json", "Lagos", SAMPLE, "orders-1")] == [
        {"partition": "orders-1"}
    ]
    assert grep("-l", "nothing-like-this", SAMPLE) == []


def test_o_prints_what_matches_and_n_where() -> None:
    assert grep("-o", "-m", "2", "Z.r", SAMPLE, "orders-0") == ["Zür", "Zür"]
    lines = grep("-on", "Z.r", SAMPLE, "orders-0")
    where = [tuple(line.split(":")[:2]) for line in lines]
    found = offsets(grep("Z.r", SAMPLE, "orders-0"))
    assert where == [(f"orders-{number}", str(offset)) for number, offset in found]
    fact = json.loads(grep("-o", "--json", "--field", "key", "k3[0-9]", SAMPLE, "orders-0")[0])
    assert fact["field"] == "key"
    assert fact["match"].startswith("k3")


def test_n_is_before_the_record_line() -> None:
    for line in grep("-n", "Lagos", SAMPLE, "orders-1"):
        name, offset, record = line.split(":", 2)
        assert (name, int(offset)) == ("orders-1", json.loads(record)["offset"])


@pytest.mark.parametrize(("option", "before", "after"), [("-A", 0, 2), ("-B", 3, 0), ("-C", 1, 1)])
def test_context_is_records_of_the_partition(option: str, before: int, after: int) -> None:
    number = str(max(before, after))
    found = offsets(grep("--field", "key", "^k35$", SAMPLE, "orders-0", "orders-1"))
    assert len(found) >= 3
    lines = grep("--field", "key", option, number, "^k35$", SAMPLE, "orders-0", "orders-1")
    shown = offsets(line for line in lines if line != "--")
    expected = [
        (partition, near)
        for partition, offset in found
        for near in range(max(offset - before, 0), offset + after + 1)
    ]
    assert shown == list(dict.fromkeys(expected))
    assert lines.count("--") == len(found) - 1


def test_context_runs_over_the_bounds_of_segments_and_joins_groups() -> None:
    every = offsets(grep("", SAMPLE, "orders-0"))
    for most in (1, 7, 400):
        pattern = r'"id": ?\d*[0-4],'
        assert offsets(grep("-C", "9", pattern, SAMPLE, "orders-0")) == every
        first = grep("-A", "3", "-m", str(most), pattern, SAMPLE, "orders-0")
        hits = offsets(grep("-m", str(most), pattern, SAMPLE, "orders-0"))
        assert offsets(line for line in first if line != "--")[-1] <= (0, hits[-1][1] + 3)
    done = CliRunner().invoke(cli, ["grep", "-C", "1", "nothing-like-this", SAMPLE])
    assert (done.exit_code, done.stdout) == (1, "")


def test_several_paths_are_searched_in_their_order() -> None:
    two = grep("Lagos", SAMPLE, "orders-1", "orders-0/offset/0..500")
    assert two == grep("Lagos", SAMPLE, "orders-1") + grep(
        "Lagos", SAMPLE, "orders-0/offset/0..500"
    )


def test_topics_partitions_and_ranges_are_chosen_as_everywhere() -> None:
    assert count("Lagos", SAMPLE, "--topic", "ord*") == count(
        "Lagos", SAMPLE, "orders-0", "orders-1"
    )
    assert grep("", SAMPLE, "-p", "orders-1", "--from", "10", "--to", "12") == grep(
        "", SAMPLE, "orders-1/offset/10..12"
    )
    assert count("", SAMPLE, "-t", "orders", "--from", "2023-11-14T23") == sum(
        count("", SAMPLE, f"orders-{number}/time/2023-11-14T23..") for number in (0, 1)
    )
    done = CliRunner().invoke(cli, ["grep", "", SAMPLE, "orders-0", "--from", "5000"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert (
        "no records in the range in orders-0; orders-0 holds offsets 0 to 999, times 2023-"
        in done.stderr
    )


def test_a_pattern_without_a_source_is_a_usage_error() -> None:
    assert CliRunner().invoke(cli, ["grep", "Lagos"]).exit_code == 2
    assert CliRunner().invoke(cli, ["grep", "-e", "Lagos"]).exit_code == 2
