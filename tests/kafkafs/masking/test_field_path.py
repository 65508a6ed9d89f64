"""A path finds the fields that jq finds; what lies in its way is masked, too."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from kafkafs.masking.actions import DROPPED, DropField, ReplaceField, read_json, write_json
from kafkafs.masking.field_path import FieldPath, protobuf_names

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


NO_PATH, NO_ROOT = "is no path such as .value.customer.email", "does not begin with .key or .value"


@pytest.mark.parametrize(("text", "reason"), [
    ("", NO_ROOT), (".", NO_PATH), ("value.a", NO_PATH), (".customer.email", NO_ROOT), (".value.a b", NO_PATH),
    (".value[0]", NO_PATH), (".value..a", NO_PATH), (".value.", NO_PATH), ("[]", NO_ROOT),
])  # fmt: skip
def test_a_text_that_is_no_path_is_an_error(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr(text))} {reason}$"):
        FieldPath.parse(text)


@pytest.mark.parametrize(("step", "names"), [
    ("card_no", ("card_no", "cardNo")), ("cardNo", ("cardNo",)), ("no", ("no",)), ("a__b", ("a__b", "aB")),
    ("_a", ("_a", "A")), ("a_", ("a_", "a")), ("a_1b", ("a_1b", "a1b")),
])  # fmt: skip
def test_a_step_names_a_field_of_protobuf_as_it_is_and_as_json_has_it(
    step: str, names: tuple[str, ...]
) -> None:
    assert protobuf_names(step) == names


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
