"""JSON as Kafka's tools write it."""

from __future__ import annotations

import pytest

from kafkafs.dump.records.java_json import java_double, java_json

DOUBLES = {
    0.0: "0.0", 1.0: "1.0", -2.5: "-2.5", 0.001: "0.001", 0.0001: "1.0E-4", 0.00012: "1.2E-4",
    9999999.0: "9999999.0", 1e7: "1.0E7", 123456789.0: "1.23456789E8", -2e8: "-2.0E8",
    1e16: "1.0E16", 1e22: "1.0E22", 1.5e-10: "1.5E-10", 1e300: "1.0E300",
}  # fmt: skip
"""Numbers, and what Java's Double.toString makes of them."""


@pytest.mark.parametrize(("value", "text"), DOUBLES.items())
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_texts_are_escaped_as_jackson_does() -> None:
    assert java_json('"\\ é \n \x0b \x1f \x7f /') == '"\\"\\\\ é \\n \\u000B \\u001F \x7f /"'
    assert java_json("\\u000b") == '"\\\\u000b"'


def test_containers_have_no_spaces_and_keep_their_order() -> None:
    value = {"b": [1, None, True], "a": {"x": 1e7}, "": []}
    assert java_json(value) == '{"b":[1,null,true],"a":{"x":1.0E7},"":[]}'
