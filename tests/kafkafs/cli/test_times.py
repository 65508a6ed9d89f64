"""Every option that takes a time takes the same times."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.cli.cluster.offsets import SPECS
from kafkafs.cli.options.times import bound_of, time_of
from kafkafs.time_grammar import TimeGrammar
from kafkafs.tree.path_names import parse_time
from tests.fixtures_data import log_dir

CURRENT = str(log_dir("current"))
DAY = 1_704_067_200_000
TIMES = {
    "2024-01-01": DAY,
    "20240101": DAY,
    "2024": DAY,
    "2024-01-01T00": DAY,
    "2024-01-01T00:00:00Z": DAY,
    "2024-01-01T02:00:00+02:00": DAY,
    "1704067200000": DAY,
}


@pytest.mark.parametrize("text", TIMES)
def test_a_time_is_an_instant_or_the_beginning_of_a_period(text: str) -> None:
    assert time_of(text, "--at") == TIMES[text]


@pytest.mark.parametrize(
    "text", ["soon", "", "2024-01-01..", "2024-13", "-1", "@", "-1x", "1h", "now-", "@-5"]
)
def test_anything_else_is_an_error_that_shows_the_forms(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match="is not a time such as 2024-01-01, 2024-01-01T10:30:00Z, -1h"
    ) as found:
        time_of(text, "--at")
    assert found.value.param_hint == "--at"


@pytest.mark.parametrize("text", ["1700000402", "100000000", "99999999999"])
def test_a_number_that_may_be_seconds_is_asked_back(text: str) -> None:
    with pytest.raises(click.BadParameter, match=f"if these are seconds, write {text}000 "):
        time_of(text, "--time")
    assert time_of(f"@{text}", "--time") == int(text)
    assert time_of(f"{text}000", "--time") == int(text) * 1000


def test_an_option_may_have_names_of_its_own() -> None:
    assert time_of("earliest", "--time", SPECS) == -2
    with pytest.raises(click.BadParameter, match=r"is not one of latest, earliest, .*, or a time"):
        time_of("newest", "--time", SPECS)


@pytest.mark.parametrize(
    ("text", "offset", "instant"),
    [("35", 35, None), ("2024", 2024, None), ("2024-01-01", None, DAY), (f"@{DAY}", None, DAY)],
)
def test_digits_are_an_offset_where_an_offset_may_be_given(
    text: str, offset: int | None, instant: int | None
) -> None:
    found = bound_of(text, "--from")
    assert found is not None
    assert (found.offset, found.timestamp) == (offset, instant)


@pytest.mark.parametrize("command", ["dump", "rebuild"])
def test_a_bound_that_is_none_is_a_usage_error(command: str) -> None:
    target = ["--dry-run"] if command == "rebuild" else []
    found = CliRunner().invoke(cli, [command, CURRENT, *target, "--from", "soon"])
    assert found.exit_code == 2
    assert "neither an offset (digits) nor a time such as 2024-01-01" in found.stderr


def test_offsets_and_states_take_days() -> None:
    offsets = [
        CliRunner().invoke(cli, ["offsets", CURRENT, "--topic", "orders", "--time", text]).stdout
        for text in ("2023-11-14", "2023-11-14T00:00:00Z")
    ]
    assert offsets[0] == offsets[1] != ""
    groups = [
        CliRunner().invoke(cli, ["groups", CURRENT, "--at", text]).stdout
        for text in ("2031-01-01", "2031-01-01T00:00:00Z")
    ]
    assert groups[0] == groups[1] != ""


NOON = DAY + 12 * 3_600_000
RELATIVE = {
    "now": NOON,
    "-1h": NOON - 3_600_000,
    "now-1h30m": NOON - 5_400_000,
    "-1d12h": NOON - 36 * 3_600_000,
    "-2w": NOON - 14 * 86_400_000,
    "-500ms": NOON - 500,
    "today": DAY,
    "yesterday": DAY - 86_400_000,
    "today-7d": DAY - 7 * 86_400_000,
    "yesterday+8h": DAY - 16 * 3_600_000,
    "@5": 5,
}


@pytest.mark.parametrize("text", RELATIVE)
def test_a_time_may_be_relative_to_the_clock_that_is_passed_in(text: str) -> None:
    assert TimeGrammar(NOON).time(text) == RELATIVE[text]
    bound = TimeGrammar(NOON).bound(text)
    assert bound is not None
    assert (bound.offset, bound.timestamp) == (None, RELATIVE[text])


@pytest.fixture
def in_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of this machine is five and a half hours ahead of UTC."""
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_a_time_without_a_zone_may_be_local(in_kolkata: None) -> None:
    local, utc = TimeGrammar(NOON, is_local=True), TimeGrammar(NOON)
    ahead = 5 * 3_600_000 + 1_800_000
    for text in ("2024-01-01", "2024", "2024-01-01T00:00:00", "today"):
        assert local.time(text) == DAY - ahead, text
        assert utc.time(text) == DAY, text
    for text in ("2024-01-01T00:00:00Z", "2024-01-01T05:30:00+05:30", str(DAY), f"@{DAY}"):
        assert local.time(text) == DAY, text
    # At noon in UTC it is 17:30 there; before 18:30 of the same day it is the same day.
    assert (
        TimeGrammar(DAY + 19 * 3_600_000, is_local=True).time("today") == DAY + 86_400_000 - ahead
    )
    assert local.time("-1h") == utc.time("-1h")


def test_a_day_without_a_zone_is_the_machine_s_with_local(in_kolkata: None) -> None:
    arguments = ["offsets", CURRENT, "--topic", "orders", "--time"]
    local = CliRunner().invoke(cli, [*arguments, "2023-11-15T03:50", "--local"]).stdout
    assert local == CliRunner().invoke(cli, [*arguments, "2023-11-14T22:20"]).stdout != ""
    before = ["offsets", "--local", *arguments[1:], "2023-11-15T03:50"]
    assert CliRunner().invoke(cli, before).stdout == local


@pytest.mark.parametrize("command", [["dump", CURRENT], ["rebuild", CURRENT, "--dry-run"]])
def test_a_range_that_ends_before_it_begins_is_a_usage_error(command: list[str]) -> None:
    found = CliRunner().invoke(cli, [*command, "--from", "10", "--to", "5"])
    assert found.exit_code == 2
    assert "--from 10 is not before --to 5, and --to is exclusive" in found.stderr


def test_a_name_in_the_tree_is_never_relative() -> None:
    for name in ("today", "-1h", "now", "@5"):
        assert parse_time(name) is None
