"""Every option that takes a time takes the same times."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.cli.arguments import bound_of, time_of
from kafkafs.cli.offsets import SPECS
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
    "text", ["yesterday", "", "2024-01-01..", "2024-13", "-1", "@1704067200000"]
)
def test_anything_else_is_an_error_that_shows_the_forms(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match="is not a time such as 2024-01-01T10:30:00Z"
    ) as found:
        time_of(text, "--at")
    assert found.value.param_hint == "--at"


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
    assert (found.offset, found.instant) == (offset, instant)


@pytest.mark.parametrize("command", ["dump", "rebuild"])
def test_a_bound_that_is_none_is_a_usage_error(command: str) -> None:
    target = ["--dry-run"] if command == "rebuild" else []
    found = CliRunner().invoke(cli, [command, CURRENT, *target, "--from", "yesterday"])
    assert found.exit_code == 2
    assert "neither an offset (digits) nor a time such as 2024-01-01T10:30:00Z" in found.stderr


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
