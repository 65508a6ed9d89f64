"""A path finds the fields that jq finds; what lies in its way is masked, too."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from kafkafs.masking.actions import DROPPED, DropField, ReplaceField, read_json, write_json
from kafkafs.masking.field_path import FieldPath

VALUE = {
    "customer": {"email": "a", "first name": "b", "phones": [{"number": 1}, {"number": 2}]},
    "by_id": {"7": {"note": "c"}, "8": {"note": "d"}},
    "rows": [[{"x": 1}], [{"x": 2, "y": 3}]],
}


@pytest.mark.parametrize(
    "path",
    [
        ".value.customer.email",
        ".value.customer",
        '.value.customer."first name"',
        '.value.customer["first name"]',
        ".value.customer.phones[].number",
        ".value.by_id[].note",
        ".value.rows[][].x",
        ".value.absent",
        ".value.customer.absent.deeper",
    ],
)
def test_jq_sets_the_same_fields(path: str) -> None:
    # jq itself makes a field that is absent: only those that are there are set.
    program = f'(({path}) | select(. != null)) |= "x"'
    expected = subprocess.run(
        ["jq", "-c", program], input=json.dumps({"value": VALUE}), capture_output=True, text=True
    )
    assert expected.returncode == 0, expected.stderr
    masked, *_ = FieldPath.parse(path).masked(VALUE, ReplaceField("x"))  # type: ignore[arg-type]
    assert masked == json.loads(expected.stdout)["value"]


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"customer": '{"email":"a"}'}, {}),
        ({"customer": ["a"]}, {}),
        ({"customer": {"email": {"is": "a"}}}, {"customer": {}}),
        ({"customer": None}, {"customer": None}),
        ({}, {}),
        ("text", DROPPED),
        ([{"customer": 1}], DROPPED),
        (None, None),
    ],
)
def test_what_lies_in_the_way_is_masked(value: Any, left: Any) -> None:
    assert FieldPath.parse(".value.customer.email").masked(value, DropField())[0] == left


def test_a_dropped_element_of_an_array_is_null_so_that_the_others_keep_their_places() -> None:
    masked, is_met, _ = FieldPath.parse(".value.a[]").masked({"a": ["x", "y"]}, DropField())
    assert (masked, is_met) == ({"a": [None, None]}, True)


@pytest.mark.parametrize(
    "text",
    ["", ".", "value.a", ".customer.email", ".value.a b", ".value[0]", ".value..a", ".value."],
)
def test_a_text_that_is_no_path_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"no path|does not begin"):
        FieldPath.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "1.10",
        "1e400",
        "123456789012345678901234567890",
        "-0",
        '"\\ud800"',
        '"a\\u202eb"',
        '["é"]',
        "{}",
    ],
)
def test_a_value_that_is_read_and_written_keeps_its_text(text: str) -> None:
    assert write_json(read_json(text)) == text
