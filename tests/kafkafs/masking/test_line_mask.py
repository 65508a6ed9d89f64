"""What a mask leaves of a record line: random values and policies, compared with the rules written out on plain JSON."""

from __future__ import annotations

import base64
import hmac
import json
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kafkafs.masking.actions import DropField, HashField, ReplaceField
from kafkafs.masking.field_path import EACH, FieldPath
from kafkafs.masking.line_mask import LineMask, MaskedField, MaskedRecord, MaskRule

KEY = b"a key of sixteen bytes or more"
PLACE = b'{"topic":"t\\"q","partition":-1,"offset":7,"timestamp":-5,"time":%s,"timestampType":"%s"'
HEAD = PLACE % (b"null", b"NoTimestampType")
ACTIONS = {"drop": DropField(), "hash": HashField(KEY), "replace": ReplaceField("hidden")}
DROPPED = object()
DONE = {"drop": "dropped", "hash": "hashed", "replace": "replaced"}
UNREADABLE = {"keyMasked": "unreadable", "valueMasked": "unreadable", "headers": []}


def hashed(data: str | bytes) -> str:
    return hmac.new(KEY, data.encode() if isinstance(data, str) else data, "sha256").hexdigest()


def line(**fields: Any) -> bytes:
    """A record line of some fields behind its place."""
    rest = {"key": "k", "value": "v", "headers": [], **fields}
    kept = {name: each for name, each in rest.items() if each is not ...}
    return HEAD + b"," + json.dumps(kept).encode()[1:] + b"\n"


def mask_of(
    *rules: tuple[str, str], headers: dict[str, str] | None = None, strict: bool = False
) -> LineMask:
    fields = tuple((FieldPath.parse(path), ACTIONS[action]) for path, action in rules)
    of_headers = {name: ACTIONS[action] for name, action in (headers or {}).items()}
    rules_of_all = (MaskRule(fields, of_headers),)
    return LineMask(rules_of_all, is_strict=True) if strict else LineMask(rules_of_all)


def left(mask: LineMask, **fields: Any) -> dict[str, Any]:
    """What is left of a line, behind the place of its record."""
    masked = mask.line(line(**fields))
    assert masked.startswith(HEAD + b",")
    assert masked.endswith(b"}\n")
    rest: dict[str, Any] = json.loads(b"{" + masked[len(HEAD) + 1 :])
    assert mask.end(line(**fields)) == masked[len(HEAD) :]
    short = json.loads(b"{" + mask.end(line(**fields), ("key", "headers", "absent"))[1:])
    assert short == {name: each for name, each in rest.items() if name not in ("key", "headers")}
    return rest


# The rules, on plain JSON. Numbers are whole, so that json has one text for each.


def text_of(value: object) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("\u202e", "\\u202e")  # which turns the direction of text


def acted(value: Any, action: str) -> Any:
    if action == "drop":
        return DROPPED
    if action == "replace":
        return "hidden"
    return None if value is None else hashed(text_of(value))


class Truth(NamedTuple):
    shown: Any
    had: bool = False
    lacked: bool = False


def truth(value: Any, steps: list[Any], action: str) -> Truth:
    """What one path leaves of a value, whether the value has a field of it, and whether an object in it lacks one."""
    if not steps:
        return Truth(acted(value, action), True)
    if value is None:
        return Truth(None)
    step, *rest = steps
    if isinstance(value, dict):
        inside = {
            name: truth(each, rest, action) if step is EACH or name == step else Truth(each)
            for name, each in value.items()
        }
        shown = {name: each.shown for name, each in inside.items() if each.shown is not DROPPED}
        lacks = step is not EACH and step not in value
        parts = list(inside.values())
    elif isinstance(value, list) and step is EACH:
        parts = [truth(each, rest, action) for each in value]
        return Truth(
            [None if each.shown is DROPPED else each.shown for each in parts],
            any(each.had for each in parts),
            any(each.lacked for each in parts),
        )
    else:
        return Truth(acted(value, action), True)
    return Truth(
        shown, any(each.had for each in parts), lacks or any(each.lacked for each in parts)
    )


NAMES = ["a", "b", "card_no", "first name"]


def random_value(chance: random.Random, depth: int = 3) -> Any:
    kind = chance.random()
    if depth and kind < 0.5:
        return {
            name: random_value(chance, depth - 1)
            for name in chance.sample(NAMES, chance.randint(0, 3))
        }
    if depth and kind < 0.7:
        return [random_value(chance, depth - 1) for _ in range(chance.randint(0, 3))]
    return chance.choice([None, True, False, 0, -12, "", "text", "\u202e\u00e9", "k"])


def random_path(chance: random.Random, root: str) -> str:
    steps = [
        chance.choice([*(f".{json.dumps(name)}" for name in NAMES), "[]"])
        for _ in range(chance.randint(0, 3))
    ]
    return f".{root}{''.join(steps)}"


def expected(
    value: Any, rules: list[tuple[FieldPath, str]], *, strict: bool
) -> tuple[Any, str | None]:
    """What all rules leave of a value, and what was done to all of it."""
    shown, done = value, None
    lacks = False
    for path, action in rules:
        lacks |= (
            truth(value, list(path.steps), action).lacked
            and truth(shown, list(path.steps), action).lacked
        )
        shown = truth(shown, list(path.steps), action).shown
        if shown is DROPPED:
            return DROPPED, "dropped"
        if isinstance(shown, str):
            done = DONE[action]
    return (DROPPED, "unreadable") if lacks and strict else (shown, done)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_random_policies_leave_of_random_values_what_the_rules_say(seed: int, strict: bool) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        value, key = random_value(chance), random_value(chance)
        rules = [
            (random_path(chance, chance.choice(["key", "value"])), chance.choice(list(ACTIONS)))
            for _ in range(chance.randint(1, 3))
        ]
        mask = mask_of(*rules, strict=strict)
        rest = left(mask, key=key, keyEncoding="json", value=value, valueEncoding="json")
        for root, original in (("key", key), ("value", value)):
            parsed = [
                (FieldPath.parse(path), action)
                for path, action in rules
                if path.startswith(f".{root}")
            ]
            shown, done = expected(original, parsed, strict=strict)
            wanted = {} if shown is DROPPED else {root: shown}
            wanted |= {f"{root}Encoding": "json"} if done is None else {f"{root}Masked": done}
            assert {name: rest[name] for name in rest if name.startswith(root)} == wanted, (
                original,
                parsed,
            )
        assert rest["headers"] == []


def facts(rules: list[tuple[str, str]], values: list[Any]) -> tuple[set[str], set[str]]:
    """The paths that some value has, and those that some lacks."""
    had, lacked = set(), set()
    for path, action in rules:
        for value in values:
            found = truth(value, list(FieldPath.parse(path).steps), action)
            had |= {path} if found.had else set()
            lacked |= {path} if found.lacked else set()
    return had, lacked


@pytest.mark.parametrize("seed", range(4))
def test_a_path_is_missed_that_some_value_lacked_and_none_had(seed: int) -> None:
    chance = random.Random(seed)
    missed = 0
    for _ in range(200):
        values = [random_value(chance) for _ in range(chance.randint(0, 3))]
        path = random_path(chance, "value")
        mask = mask_of((path, "hash"), (".key", "replace"))
        for value in values:
            mask.line(line(value=value, valueEncoding="json"))
        had, lacked = facts([(path, "hash")], values)
        assert mask.missed == [each for each in (path,) if each in lacked and each not in had]
        missed += len(mask.missed)
    assert missed > 10


@pytest.mark.parametrize("first", ["drop", "hash", "replace"])
def test_a_field_that_an_action_before_took_is_not_missed_and_not_lacking(first: str) -> None:
    mask = mask_of((".value.a", first), (".value.a.b", "hash"), (".value.a.c", "drop"), strict=True)
    rest = left(mask, value={"a": {"b": 1, "c": 2}}, valueEncoding="json")
    assert "valueMasked" not in rest
    assert mask.missed == []
    mask = mask_of(
        (".value.a", "drop"), (".value.a", "drop"), (".value.x", "drop"), (".value.x", "hash")
    )
    left(mask, value={"a": 1}, valueEncoding="json")
    assert mask.missed == [".value.x"]


def test_paths_after_one_that_takes_the_value_say_nothing() -> None:
    mask = mask_of((".value", "drop"), (".value.x", "drop"))
    assert left(mask, value={"a": 1}, valueEncoding="json")["valueMasked"] == "dropped"
    assert mask.missed == []


# Keys and values that are no JSON

RAW = b"\xff\x00canary"
BYTES = {"base64": base64.b64encode(RAW).decode(), "hex": RAW.hex()}


@pytest.mark.parametrize("wrapped", ["", "gzip/"])
@pytest.mark.parametrize("encoding", BYTES)
@pytest.mark.parametrize("root", ["key", "value"])
def test_of_bytes_an_action_on_all_of_them_is_done_and_anything_else_hides_them(
    root: str, encoding: str, wrapped: str
) -> None:
    shown = {root: BYTES[encoding], f"{root}Encoding": wrapped + encoding}
    for rules, wanted in (
        ([], {f"{root}Masked": "unreadable"}),
        ([(f".{root}.a", "hash")], {f"{root}Masked": "unreadable"}),
        ([(f".{root}", "drop")], {f"{root}Masked": "dropped"}),
        ([(f".{root}", "hash")], {root: hashed(RAW), f"{root}Masked": "hashed"}),
        (
            [(f".{root}.a", "hash"), (f".{root}", "replace")],
            {root: "hidden", f"{root}Masked": "replaced"},
        ),
    ):
        mask = mask_of(*rules, strict=True)
        rest = left(mask, **shown)
        assert {name: each for name, each in rest.items() if name.startswith(root)} == wanted
        assert mask.missed == []


@pytest.mark.parametrize("root", ["key", "value"])
def test_what_no_rule_names_is_shown_with_its_details(root: str) -> None:
    schema = "keySchema" if root == "key" else "schema"
    for shown in (
        {root: None}, {root: "text"}, {root: 7, f"{root}Encoding": "int64"},
        {root: {"x": 1}, f"{root}Encoding": "avro", schema: {"id": 4}},
    ):  # fmt: skip
        rest = left(mask_of(headers={"x": "drop"}), **shown)
        assert {
            name: each for name, each in rest.items() if name.startswith(root) or name == schema
        } == shown
    shown = {root: {"x": "s"}, f"{root}Encoding": "avro", schema: {"id": 4}}
    assert left(mask_of((f".{root}.x", "replace")), **shown) == {
        **left(mask_of(headers={"x": "drop"}), **shown), root: {"x": "hidden"},
    }  # fmt: skip


def test_of_a_large_record_only_its_place_and_what_is_behind_the_headers_is_left() -> None:
    rest = left(mask_of((".value.a", "drop")), key=..., value=..., keySize=9, leaderEpoch=3)
    assert rest == {**UNREADABLE, "leaderEpoch": 3}


def test_only_fields_that_are_named_here_are_in_a_masked_line() -> None:
    rest = left(
        mask_of(headers={"x": "drop"}),
        control={"type": "commit"}, keyNote="n", valueNote="secret", new="secret", keySize=1, leaderEpoch=3,
        sequence=4, transaction={"state": "open"}, belowLogStart=True,
    )  # fmt: skip
    assert list(rest) == [
        "control", "key", "value", "headers", "leaderEpoch", "sequence", "transaction", "belowLogStart",
    ]  # fmt: skip
    assert rest["control"] == {"type": "commit"}
    assert (rest["leaderEpoch"], rest["sequence"], rest["transaction"], rest["belowLogStart"]) == (
        3,
        4,
        {"state": "open"},
        True,
    )


@pytest.mark.parametrize(
    "time", [b"null", b'"2023-11-14T22:13:20.000Z"', b'"+292278994-08-17T07:12:55.807Z"']
)
def test_the_place_of_a_record_stays_byte_for_byte(time: bytes) -> None:
    head = PLACE % (time, b"LogAppendTime")
    whole = head + b',"key":null,"value":"v","headers":[]}\n'
    assert (
        mask_of((".value", "drop")).line(whole)
        == head + b',"key":null,"valueMasked":"dropped","headers":[]}\n'
    )
    two = mask_of((".value", "drop")).lines(whole * 2 + b"\n")
    assert two == (head + b',"key":null,"valueMasked":"dropped","headers":[]}\n') * 2


@pytest.mark.parametrize(
    "rest",
    [
        b',"key":',
        b',"key":"\xff"}',
        b',"key":1,"value":2}',
        b"," + b"[" * 100_000,
        b',"headers":7}',
    ],
)
def test_of_a_line_that_cannot_be_read_only_the_place_is_left(rest: bytes) -> None:
    mask = mask_of((".value.a", "drop"))
    wanted = b',"keyMasked":"unreadable","valueMasked":"unreadable","headers":[]}\n'
    assert mask.line(HEAD + rest) == HEAD + wanted
    assert mask.end(HEAD + rest) == wanted
    unreadable = MaskedField(b"unreadable", done="unreadable")
    assert mask.record(HEAD + rest) == MaskedRecord(unreadable, unreadable, ())


def test_a_value_that_is_too_deep_to_write_is_unreadable_in_each_form() -> None:
    given = (
        HEAD
        + b',"key":"k","value":'
        + b"[" * 400
        + b"]" * 400
        + b',"valueEncoding":"json","headers":[]}\n'
    )
    mask = mask_of((".value" + "[]" * 400 + ".a", "drop"))
    limit = sys.getrecursionlimit()
    for most in range(150, 3 * 400, 75):  # too few frames to read it, to mask it, to write it
        sys.setrecursionlimit(most)
        try:
            line, record = mask.line(given), mask.record(given)
        finally:
            sys.setrecursionlimit(limit)
        assert line == given or b'"valueMasked":"unreadable"' in line
        assert record.value.content in (b"unreadable", b"[" * 400 + b"]" * 400)


# Headers


def headers(given: list[dict[str, Any]], rules: dict[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = left(mask_of(headers=rules), headers=given)["headers"]
    return found


RAW_HEADER = {"key": "Raw", "value": BYTES["base64"], "valueEncoding": "base64"}


def test_headers_are_dropped_hashed_and_replaced_by_name_and_others_by_the_star() -> None:
    given = [
        {"key": "Trace", "value": "t"}, {"key": "x", "value": "1"}, {"key": "n", "value": None},
        {"key": "j", "value": {"b": 1, "a": 2}, "valueEncoding": "json"}, RAW_HEADER,
        {"key": "//8=", "keyEncoding": "base64", "value": "t"},
    ]  # fmt: skip
    assert headers(given, {}) == given[:4]
    assert headers(given, {"trace": "drop"}) == given[1:4]
    assert headers(given, {"trace": "hash", "x": "replace", "n": "hash"}) == [
        {"key": "Trace", "value": hashed("t")}, {"key": "x", "value": "hidden"}, {"key": "n", "value": None}, given[3],
    ]  # fmt: skip
    assert headers(given, {"*": "hash", "trace": "replace"}) == [
        {"key": "Trace", "value": "hidden"}, {"key": "x", "value": hashed("1")}, {"key": "n", "value": None},
        {"key": "j", "value": hashed('{"a":2,"b":1}')}, {"key": "Raw", "value": hashed(RAW)},
    ]  # fmt: skip
    assert headers(given, {"*": "drop"}) == []
    assert headers([RAW_HEADER], {"raw": "replace"}) == [{"key": "Raw", "value": "hidden"}]


def test_all_rules_act_on_a_header_in_their_order() -> None:
    rules = tuple(MaskRule((), {"raw": ACTIONS[action]}) for action in ("hash", "hash"))
    twice = json.loads(b"{" + LineMask(rules).line(line(headers=[RAW_HEADER]))[len(HEAD) + 1 :])
    assert twice["headers"] == [{"key": "Raw", "value": hashed(hashed(RAW))}]
    rules = (MaskRule((), {"x": ACTIONS["drop"]}), MaskRule((), {"*": ACTIONS["replace"]}))
    assert (
        json.loads(
            b"{" + LineMask(rules).line(line(headers=[{"key": "x", "value": "1"}]))[len(HEAD) + 1 :]
        )["headers"]
        == []
    )


def test_a_header_that_cannot_be_masked_is_left_out() -> None:
    broken = {"key": "Raw", "value": "no base64!", "valueEncoding": "base64"}
    assert headers([{**broken, "value": "a"}, {"key": "x", "value": "1"}], {"raw": "hash"}) == [
        {"key": "x", "value": "1"}
    ]


# Records


def test_a_record_has_texts_as_they_are_and_json_beside_the_encoding() -> None:
    record = mask_of((".value.a", "hash"), (".key.b", "drop"), headers={"h": "hash"}).record(
        line(key={"b": 1}, keyEncoding="avro", keySchema={"id": 4}, value={"c": 1, "a": 5}, valueEncoding="json",
             headers=[{"key": "h", "value": "x"}, {"key": "n", "value": None}, {"key": "j", "value": [1], "valueEncoding": "json"},
                      {"key": "t", "value": "x", "valueEncoding": "text"}])
    )  # fmt: skip
    value = f'{{"c":1,"a":"{hashed("5")}"}}'.encode()
    assert record.value == MaskedField(value)
    assert record.key == MaskedField(b"{}", b"{}", b"avro", b'{"id":4}')
    assert [(each.key, each.value) for each in record.headers] == [
        (b"h", hashed("x").encode()), (b"n", None), (b"j", b"[1]"), (b"t", b"x"),
    ]  # fmt: skip


@pytest.mark.parametrize(("shown", "encoding", "wanted"), [
    ("text", None, MaskedField(b"text", is_exact=True)),
    (None, None, MaskedField(None, is_exact=True)),
    ({"a": 1}, "json", MaskedField(b'{"a":1}', is_exact=True)),
    ({"group": 1}, None, MaskedField(b'{"group":1}', is_exact=True)),
    (None, "avro", MaskedField(b"null", b"null", b"avro", is_exact=True)),
    ("text", "text", MaskedField(b"text", b"text", b"text", is_exact=True)),
    ("s", "avro", MaskedField(b'"s"', b'"s"', b"avro", is_exact=True)),
    (7, "int64", MaskedField(b"7", b"7", b"int64", is_exact=True)),
    ("AA==", "base64", MaskedField(b"unreadable", done="unreadable")),
    ("\ud800", None, MaskedField(b"?", is_exact=True)),
])  # fmt: skip
def test_a_value_that_no_rule_names_is_exact_if_it_can_be_read(
    shown: Any, encoding: str | None, wanted: MaskedField
) -> None:
    details = {} if encoding is None else {"valueEncoding": encoding}
    assert mask_of((".key", "drop")).record(line(value=shown, **details)).value == wanted


def test_a_value_that_a_rule_names_is_never_exact() -> None:
    mask = mask_of((".value.a", "drop"))
    for value in ({"b": 1}, None, [1]):
        assert not mask.record(line(value=value, valueEncoding="json")).value.is_exact
        assert mask.record(line(value={}, valueEncoding="json")).key.is_exact


@pytest.mark.parametrize(("rule", "wanted"), [
    ("drop", MaskedField(None, done="dropped")),
    ("hash", MaskedField(hashed("v").encode(), done="hashed")),
    ("replace", MaskedField(b"hidden", done="replaced")),
])  # fmt: skip
def test_what_was_done_to_a_whole_value_is_said(rule: str, wanted: MaskedField) -> None:
    assert mask_of((".value", rule)).record(line()).value == wanted


# What else a mask says


def test_a_mask_knows_its_paths_and_whether_it_masks_keys() -> None:
    mask = mask_of((".value.a", "drop"), (".value", "hash"))
    assert [path.text for path in mask.paths] == [".value.a", ".value"]
    assert not mask.masks_keys
    assert mask_of((".value", "hash"), (".key.a", "drop")).masks_keys


def test_of_damage_the_place_and_the_kind_are_left() -> None:
    facts = {
        "file": "f", "position": 1, "length": 2, "kind": "crc", "firstOffset": 3, "lastOffset": 4, "record": 5,
        "elsewhere": [], "reason": "secret", "expected": 6, "found": 7,
    }  # fmt: skip
    assert mask_of((".value", "drop")).damage(facts) == {
        **{name: each for name, each in facts.items() if name not in ("expected", "found")},
        "reason": "the records cannot be read",
    }
    assert mask_of((".value", "drop")).damage({"kind": "crc"}) == {
        "kind": "crc",
        "reason": "the records cannot be read",
    }


def test_many_threads_may_use_one_mask() -> None:
    mask = mask_of(*((f".value.f{place}", "hash") for place in range(8)))

    def work(place: int) -> Iterator[None]:
        mask.lines(line(value={f"f{place}": 1}, valueEncoding="json") * 50)
        yield

    threads = [threading.Thread(target=lambda place=place: list(work(place))) for place in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert mask.missed == []


@pytest.mark.parametrize(
    "error", [ValueError(), TypeError(), RecursionError(), MemoryError(), OSError()]
)
def test_what_an_action_fails_at_is_unreadable_and_the_rest_is_shown(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(*_: object) -> None:
        raise error

    monkeypatch.setattr(ReplaceField, "apply", failing)
    mask = mask_of((".value.a", "replace"), (".key", "hash"), headers={"h": "replace"})
    given = {
        "value": {"a": 1},
        "valueEncoding": "json",
        "headers": [{"key": "h", "value": "x"}, {"key": "i", "value": "y"}],
    }
    assert left(mask, **given, leaderEpoch=2) == {
        "key": hashed("k"), "keyMasked": "hashed", "valueMasked": "unreadable",
        "headers": [{"key": "i", "value": "y"}], "leaderEpoch": 2,
    }  # fmt: skip
    assert mask.record(line(**given)).value == MaskedField(b"unreadable", done="unreadable")


@pytest.mark.parametrize("encoding", ["protobuf", "gzip/protobuf", "json"])
def test_a_value_of_protobuf_has_both_names_of_a_field(encoding: str) -> None:
    given = {"value": {"cardNo": 1, "a": {"cardNo": 2}}, "valueEncoding": encoding}
    mask = mask_of((".value.card_no", "replace"), (".value.a.card_no", "replace"))
    is_known = encoding != "json"
    assert left(mask, **given)["value"] == (
        {"cardNo": "hidden", "a": {"cardNo": "hidden"}} if is_known else given["value"]
    )
    assert mask.missed == ([] if is_known else [".value.card_no", ".value.a.card_no"])
