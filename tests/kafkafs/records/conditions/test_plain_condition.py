"""Plain conditions say what libjq says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from kafkafs.records.conditions.condition import Condition, OtherTypeError, UndecidedError
from kafkafs.records.conditions.plain_condition import plain_condition
from kafkafs.records.conditions.where import _compiled, _results

pytest.importorskip("jq", reason="jq is not installed: pip install '.[where]'")

NAMES = ("a", "b", "a b", "_c1", "ü")
SCALARS = (
    st.none() | st.booleans() | st.sampled_from(["", "a", "b", "Ü", "\U0001f600", "￿", "10", "null"])
    | st.integers(-3, 3) | st.sampled_from([0.5, -0.0, 1.0, 1e15, 2**53, 2**53 + 1, 2**63, 1e300])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner),
    max_leaves=6,
)
LINES = st.dictionaries(st.sampled_from(NAMES), VALUES) | VALUES


def named(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else json.dumps(name, ensure_ascii=False)


PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(
    lambda names: "".join(f".{named(name)}" for name in names)
)
CONSTANTS = (
    st.sampled_from(["null", "true", "false", '"a"', '"Ü"', '""', "0", "-1", "0.5", "1.0"])
    | st.integers(-3, 3).map(str)
)  # fmt: skip


def grown(part: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    compared = st.tuples(part, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), part)
    joined = st.tuples(part, st.sampled_from(["and", "or"]), part)
    return (
        compared.map(lambda words: f"({' '.join(words)})")
        | joined.map(" ".join).map(lambda text: f"({text})")
        | joined.map(" ".join).map(lambda text: f"({text} | not)")
        | part.map(lambda text: f"({text}|not|not)")
    )


EXPRESSIONS = st.recursive(PATHS | CONSTANTS, grown, max_leaves=6)


@settings(max_examples=150)
@given(
    left=EXPRESSIONS,
    sign=st.sampled_from(["==", "<", ">=", "and", "or"]),
    right=EXPRESSIONS,
    line=LINES,
)
def test_it_says_what_libjq_says(left: str, sign: str, right: str, line: Any) -> None:
    text = f"{left} {sign} {right} or {left}"
    condition = plain_condition(text)
    assert condition is not None, text
    data = json.dumps(line).encode()
    (expected,) = _results(_compiled(text), [data])
    said = outcome(condition, json.loads(data))
    assert said in (None, expected)


def outcome(condition: Condition, line: Any) -> int | str | None:
    """What libjq would answer; None where it is left to it."""
    try:
        result = condition.answer(line)
    except UndecidedError:
        return None
    except OtherTypeError as error:
        return f"e{error}"
    return int(result is not None and result is not False)


@pytest.mark.parametrize(
    "text",
    [
        ".a | length", ".a + 1", ".[0]", ".a[]", ".a[0] == 1", ".", "..", ".a?", ".a == .b == .c", "empty", ".a,.b",
        ".a // 1", "$x", ".a == 1e3", ".a == 9007199254740993", ".a == 0.12345678901234567890", '.a == "\\n"',
        "(.a", ".a)", ".a and", "not", ".a | not == 1 |", "if .a then 1 else 2 end", ".ä", "1a", "", "@base64",
        "(" * 60 + ".a" + ")" * 60,
    ],
)  # fmt: skip
def test_other_expressions_are_left_to_libjq(text: str) -> None:
    assert plain_condition(text) is None


@pytest.mark.parametrize("value", ["[]", "{}", "9007199254740994", "1e300", "[1]"])
def test_what_python_compares_otherwise_is_left_to_libjq(value: str) -> None:
    condition = plain_condition(".a < 3")
    assert condition is not None
    with pytest.raises(UndecidedError):
        condition.answer({"a": json.loads(value)})


def test_plain_conditions_have_jqs_precedence() -> None:
    for text in (
        ".a == 1 or .b == 1 and .c == 1",
        ".a and .b | not",
        "(.a or .b) and .c",
        ".a or .b | not | not",
        ".a == 1 | not",
    ):
        condition = plain_condition(text)
        assert condition is not None
        for number in range(27):
            line = {"a": number % 3, "b": number // 3 % 3 or None, "c": number // 9 == 1}
            (expected,) = _results(_compiled(text), [json.dumps(line).encode()])
            assert outcome(condition, line) == expected, (text, line)
