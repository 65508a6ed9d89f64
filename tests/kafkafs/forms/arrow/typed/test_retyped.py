"""Columns in other types: each value stays, or is null with a note."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[arrow]'")

from kafkafs.forms.arrow.errors import NOT_FITTING  # noqa: E402
from kafkafs.forms.arrow.typed.retyped import retyped, retyped_with_notes, with_leaves  # noqa: E402

NANOS = pa.timestamp("ns", "UTC")
MICROS = pa.timestamp("us", "UTC")
MOST = 2**64 - 1
LEAP_DAY = datetime(2024, 2, 29, tzinfo=UTC).replace(tzinfo=None)


def other(kind: Any) -> Any:
    """A type in place of each that some program lacks."""
    if pa.types.is_struct(kind) or pa.types.is_time(kind) or kind == pa.null():
        return pa.string()
    if pa.types.is_decimal(kind) and kind.precision > 38:
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_duration(kind):
        return pa.duration("us")
    return {pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}.get(kind, kind)


CASES: list[tuple[Any, Any, Any]] = [
    (pa.int64(), 5, 5),
    (pa.uint32(), 2**32 - 1, 2**32 - 1),
    (pa.uint64(), MOST, Decimal(MOST)),
    (pa.null(), None, None),
    (pa.binary(3), b"abc", b"abc"),
    (pa.time64("us"), time(1, 2, 3, 4), "01:02:03.000004"),
    (pa.time32("ms"), time(1, 2, 3, 4000), "01:02:03.004"),
    (pa.decimal256(50, 2), Decimal("-1.25"), "-1.25"),
    (pa.date32(), date(2024, 2, 29), date(2024, 2, 29)),
    (pa.timestamp("ms"), LEAP_DAY, LEAP_DAY),
    (NANOS, 1_500, datetime(1970, 1, 1, microsecond=1, tzinfo=UTC)),
    (NANOS, -1, datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    (pa.duration("ns"), 1_500, timedelta(microseconds=1)),
    (pa.struct([]), {}, "{}"),
]


@pytest.mark.parametrize(("kind", "value", "wanted"), CASES, ids=str)
def test_each_type_alone_and_nested(kind: Any, value: Any, wanted: Any) -> None:
    def check(outer: Any, given: list[Any], shown: list[Any]) -> None:
        array = pa.array(given, outer)
        for some, part in ((array, shown), (array.slice(1, 2), shown[1:3]), (array[:0], [])):
            found = retyped(some, with_leaves(outer, other))
            found.validate(full=True)
            assert found.type == with_leaves(outer, other)
            assert found.to_pylist() == part

    check(kind, [value, None, value], [wanted, None, wanted])
    check(pa.list_(kind), [[value, None], None, []], [[wanted, None], None, []])
    check(
        pa.struct([("a", kind), ("b", pa.list_(kind))]),
        [{"a": value, "b": [value]}, None, {"a": None, "b": None}],
        [{"a": wanted, "b": [wanted]}, None, {"a": None, "b": None}],
    )
    check(
        pa.map_(pa.string(), kind),
        [[("x", value), ("y", None)], None, []],
        [[("x", wanted), ("y", None)], None, []],
    )


@pytest.mark.parametrize(("kind", "value"), [(pa.int64(), 7), (pa.bool_(), True)], ids=str)
def test_keys_of_maps_have_types_of_their_own(kind: Any, value: Any) -> None:
    array = pa.array([[(value, 1)], None], pa.map_(kind, pa.uint32()))
    shown = with_leaves(array.type, other, lambda _: pa.string())
    assert shown == pa.map_(pa.string(), pa.int64())
    assert retyped(array, shown).to_pylist() == [[(str(value).lower(), 1)], None]


def test_keys_of_maps_are_changed_like_values() -> None:
    array = pa.array([[(2**32 - 1, 1)]], pa.map_(pa.uint32(), pa.int32()))
    shown = with_leaves(array.type, other)
    assert retyped(array, shown).to_pylist() == [[(2**32 - 1, 1)]]
    assert shown == pa.map_(pa.int64(), pa.int32())


def test_a_time_that_another_type_cannot_hold_is_null_and_the_rest_of_its_value_stays() -> None:
    kind = pa.struct([("at", pa.timestamp("ms", "UTC")), ("n", pa.int32())])
    array = pa.array(
        [{"at": 1, "n": 1}, {"at": 2**62, "n": 2}, None, {"at": -(2**62), "n": 3}], kind
    )
    found, notes = retyped_with_notes(array, with_leaves(kind, other))
    assert found.field("n").to_pylist()[1::2] == [2, 3]
    assert found.field("at").is_null().to_pylist()[:2] == [False, True]
    assert found.field("at").is_null().to_pylist()[3]
    assert found.is_null().to_pylist() == [False, False, True, False]
    assert sorted(notes) == [1, 3]
    assert all(note.startswith(NOT_FITTING) for note in notes.values())
    assert retyped_with_notes(array[:1], with_leaves(kind, other))[1] == {}


def test_a_bad_element_of_a_list_costs_itself() -> None:
    kind = pa.list_(pa.timestamp("ms", "UTC"))
    found, notes = retyped_with_notes(pa.array([[1], [2**62], [2, 3]], kind), pa.list_(MICROS))
    assert [None if each is None else len(each) for each in found.to_pylist()] == [1, 1, 2]
    assert found.to_pylist()[1] == [None]
    assert list(notes) == [1]


def test_the_same_type_is_the_same_array() -> None:
    array = pa.array([{"a": [1]}])
    assert retyped(array, array.type) is array
