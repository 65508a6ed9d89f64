"""A condition says the same of records by their columns and bytes as by their lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import example, given, strategies as st

from kafkafs.cli import cli
from kafkafs.records.conditions.condition import (
    UNKNOWN,
    Known,
    OtherTypeError,
    Truth,
    narrowed_offsets,
)
from kafkafs.records.conditions.plain_condition import plain_condition
from kafkafs.records.conditions.where import Where
from tests.fixtures_data import log_dir

pytest.importorskip("jq", reason="jq is not installed: pip install '.[where]'")

SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])
COMPARED = st.tuples(
    st.sampled_from([".offset", ".partition", ".topic", ".other", ".value.city", "null"]),
    SIGNS,
    st.sampled_from(["0", "3", "4.5", '"a"', "null", "true", ".offset"]),
).map(" ".join)
EXPRESSIONS = st.recursive(
    COMPARED,
    lambda part: (
        st.tuples(part, st.sampled_from(["and", "or"]), part).map(" ".join).map("({})".format)
        | part.map("({} | not)".format)
    ),
    max_leaves=5,
)


def lines_of(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found(*arguments).splitlines()]


def found(*arguments: str) -> str:
    return CliRunner().invoke(cli, ["grep", "-j", "1", *arguments, str(log_dir("sample"))]).stdout


@cache
def every_line() -> list[dict[str, Any]]:
    return lines_of("-v", "-e", "no such text")


def is_true(expression: str, line: dict[str, Any]) -> bool:
    condition = plain_condition(expression)
    assert condition is not None
    try:
        return condition.answer(line) not in (None, False)
    except OtherTypeError:
        return False


@given(
    text=EXPRESSIONS,
    first=st.integers(-2, 6),
    size=st.integers(0, 4),
    city=st.sampled_from(["a", "b", None]),
    is_object=st.booleans(),
)
@example(text='.value.city == "a" | not', first=0, size=0, city="a", is_object=False)
@example(text='.value.city == "a" or .offset >= 0', first=0, size=0, city="a", is_object=False)
def test_what_is_sure_is_true_and_what_is_impossible_is_not(
    text: str, first: int, size: int, city: str | None, is_object: bool
) -> None:
    condition = plain_condition(text)
    assert condition is not None

    def by_bytes(path: tuple[str, ...], data: str) -> Truth:
        if path != ("value", "city"):
            return UNKNOWN
        return Truth(np.False_, np.bool_(is_object and city == data), may_fail=True)

    numbers = {"partition": (3, 3), "offset": (first, first + size)}
    known = Known({"topic": "a"}, numbers, by_bytes)
    truth = condition.truth(known)
    for offset in range(first, first + size + 1):
        value = {"city": city} if is_object else "text"
        line = {"topic": "a", "partition": 3, "offset": offset, "value": value}
        assert bool(truth.is_sure) <= is_true(text, line) <= bool(truth.is_possible), line


@pytest.mark.parametrize(
    "expression",
    [
        '.key == "k7"',
        '.key != "k7" and .offset >= 10 and .offset < 300',
        '.topic == "orders" and .partition > 0 or .offset == 5',
        '.value.city == "Oslo"',
        '.value.city == "Oslo" | not',
        '(.value.city != "Oslo" or .key == "k1") and .timestamp > 0',
        '.key == "/w==" or .offset < 0',
    ],
)
def test_records_are_chosen_as_their_lines_say(expression: str) -> None:
    expected = [line for line in every_line() if is_true(expression, line)]
    assert lines_of("--where", expression) == expected


def test_no_line_is_made_of_what_columns_and_bytes_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    marks = Where.marks

    def counted(where: Where, lines: Sequence[bytes], name_of: Any) -> list[bool]:
        tried.append(len(lines))
        return marks(where, lines, name_of)

    monkeypatch.setattr(Where, "marks", counted)
    number = found("-c", "--where", '.topic == "orders" and .offset < 100')
    assert int(number) > 0
    assert sum(tried) == 0
    assert int(found("-c", "--where", '.topic == "orders" and .value.city == "Oslo"')) > 0
    orders = [line for line in every_line() if line["topic"] == "orders"]
    assert 0 < sum(tried) < len(orders) / 2


def test_the_offsets_of_a_condition_are_found_from_both_ends() -> None:
    assert narrowed_offsets(lambda first, last: first <= 40 <= last, 0, 100) == (40, 41)
    assert narrowed_offsets(lambda first, last: last >= 40, 0, 100) == (40, 100)
    assert narrowed_offsets(lambda first, last: False, 0, 100) == (100, 100)
