"""A policy names topics, fields and headers; one that breaks the format is an error, and no part of it is used."""

from __future__ import annotations

import hmac
import json
import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.units import TopicPartition
from kafkafs.masking.actions import DropField, HashField, ReplaceField
from kafkafs.masking.line_mask import LineMask
from kafkafs.masking.policy import MaskPolicy, MaskPolicyError, require_topics

RULE = '[[rules]]\ntopics = ["orders", "pay*", "/x[0-9]/"]\nfields = { ".value" = "drop" }\n'
KEY = "a key of sixteen bytes or more"


def policy(folder: Path, text: str, key: str = KEY) -> MaskPolicy:
    (folder / "mask.key").write_text(f"{key}\n")
    (folder / "mask.toml").write_text(text)
    return MaskPolicy(str(folder / "mask.toml"))


def test_topics_are_named_as_in_the_option_topic(tmp_path: Path) -> None:
    found = policy(tmp_path, RULE)
    named = ["orders", "orders2", "pay", "payments", "x1", "x12"]
    assert [found.mask(topic) is not None for topic in named] == [
        True, False, True, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rules = []",
        "rules = 1",
        "[[rules]]",
        '[[rules]]\ntopics = ["a"]',
        '[[rules]]\ntopics = []\nfields = { ".value" = "drop" }',
        '[[rules]]\ntopics = "a"\nfields = { ".value" = "drop" }',
        '[[rules]]\ntopics = [""]\nfields = { ".value" = "drop" }',
        '[[rules]]\ntopics = ["/(/"]\nfields = { ".value" = "drop" }',
        '[[rules]]\ntopics = ["a"]\nfield = { ".value" = "drop" }\nheaders = { a = "drop" }',
        '[[rules]]\ntopics = ["a"]\nfields = { ".value" = "dorp" }',
        '[[rules]]\ntopics = ["a"]\nfields = { ".value" = "hash" }',
        '[[rules]]\ntopics = ["a"]\nfields = { ".value" = { replace = 1 } }',
        '[[rules]]\ntopics = ["a"]\nfields = { ".value" = { replace = "x", hash = "y" } }',
        '[[rules]]\ntopics = ["a"]\nfields = { ".email" = "drop" }',
        '[[rules]]\ntopics = ["a"]\nheaders = { a = true }',
        f'keyfile = "mask.key"\n{RULE}',
        f'key_file = "none.key"\n{RULE}',
        f"key_file = 1\n{RULE}",
        "rules = [",
    ],
)
def test_a_policy_that_breaks_the_format_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(MaskPolicyError):
        policy(tmp_path, text)


def test_a_short_key_is_refused_without_being_printed(tmp_path: Path) -> None:
    with pytest.raises(MaskPolicyError, match=r"fewer than 16 bytes") as caught:
        policy(tmp_path, f'key_file = "mask.key"\n{RULE}', key="hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_hash_is_the_hmac_of_rfc_4231_and_does_not_show_its_key() -> None:
    key = b"\x0b" * 20
    action = HashField(key)
    expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    assert action.apply("Hi There") == action.apply(b"Hi There") == expected
    assert repr(action) == "HashField()"


@pytest.mark.parametrize(
    ("size", "is_taken"), [(15, False), (16, True), (4096, True), (4097, False)]
)
def test_a_key_has_16_bytes_or_more_without_the_newline_and_4096_at_most(
    tmp_path: Path, size: int, is_taken: bool
) -> None:
    text = f'key_file = "mask.key"\n{RULE.replace(chr(34) + "drop", chr(34) + "hash")}'
    (tmp_path / "mask.toml").write_text(text)
    (tmp_path / "mask.key").write_bytes(b"k" * size + (b"" if size > 4095 else b"\r\n"))
    if not is_taken:
        with pytest.raises(MaskPolicyError, match=r"fewer than 16 bytes|more than 4096 bytes"):
            MaskPolicy(str(tmp_path / "mask.toml"))
        return
    mask = MaskPolicy(str(tmp_path / "mask.toml")).mask("orders")
    assert mask is not None
    ((_, action),) = mask.rules[0].fields
    assert action == HashField(b"k" * size)


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_a_policy_has_a_mebibyte_at_most(tmp_path: Path, more: int, is_taken: bool) -> None:
    text = RULE + "#" * (1024 * 1024 - len(RULE) + more)
    if is_taken:
        assert policy(tmp_path, text).mask("orders") is not None
        return
    with pytest.raises(MaskPolicyError, match=r"mask\.toml has more than 1048576 bytes"):
        policy(tmp_path, text)


def test_errors_say_what_is_wrong_and_where(tmp_path: Path) -> None:
    with pytest.raises(
        MaskPolicyError, match=r"none\.toml cannot be read: No such file or directory$"
    ):
        MaskPolicy(str(tmp_path / "none.toml"))
    for text, reason in {
        "rules = []": r"it has no \[\[rules\]\]",
        f"strict = 1\n{RULE}": "strict is not of the type bool",
        f"rule = 1\n{RULE}": "'rule' is none of key_file, rules, strict",
        '[[rules]]\nfields = { ".value" = "drop" }': "a rule needs topics, and fields or headers",
        '[[rules]]\ntopics = ["a"]': "a rule needs topics, and fields or headers",
        '[[rules]]\ntopics = [1]\nheaders = { a = "drop" }': "topics is not of the type str",
        '[[rules]]\ntopics = ["a"]\nheaders = 1': "headers is not of the type dict",
        '[[rules]]\ntopics = ["a"]\nfields = { ".value" = "hash" }': '"hash" needs a key_file',
        '[[rules]]\ntopics = ["a"]\nfields = { ".value" = "redact" }': 'an action is "drop", "hash" or { replace = "text" }',
    }.items():
        with pytest.raises(MaskPolicyError, match=f"mask.toml is no policy of masks: {reason}"):
            policy(tmp_path, text)


def test_a_rule_has_its_fields_and_headers_in_lower_case(tmp_path: Path) -> None:
    text = (
        'key_file = "mask.key"\n[[rules]]\ntopics = ["o*"]\nfields = { ".key" = "hash", ".value.a" = { replace = "x" } }\n'
        'headers = { Trace-ID = "drop", "*" = "hash" }\n[[rules]]\ntopics = ["orders"]\nheaders = { a = "drop" }\n'
    )
    found = policy(tmp_path, text)
    mask = found.mask("orders")
    assert mask is not None
    key = HashField(KEY.encode())
    first, second = mask.rules
    assert [(path.text, action) for path, action in first.fields] == [
        (".key", key),
        (".value.a", ReplaceField("x")),
    ]
    assert first.headers == {"trace-id": DropField(), "*": key}
    assert (second.fields, second.headers) == ((), {"a": DropField()})
    other = found.mask("other")
    assert other is not None
    assert other.rules == (first,)
    assert [each.text for each in found.patterns] == ["o*", "orders"]
    assert found.mask("orders") is mask


def line(value: object) -> bytes:
    head = b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"time":null,"timestampType":"CreateTime"'
    return (
        head
        + b',"key":"k","value":%s,"valueEncoding":"json","headers":[]}\n'
        % json.dumps(value).encode()
    )


def asked(found: MaskPolicy, topic: str) -> LineMask:
    mask = found.mask(topic)
    assert mask is not None
    return mask


FIELDS = '[[rules]]\ntopics = ["a*"]\nfields = { ".value.x" = "drop", ".value.y" = "drop" }\n'


def test_what_other_processes_met_and_lacked_is_added(tmp_path: Path) -> None:
    here, there = policy(tmp_path, FIELDS), policy(tmp_path, FIELDS)
    copy = pickle.loads(pickle.dumps(here))
    assert copy.fingerprint == here.fingerprint
    for each in (here, copy, there):
        each.mask("b")
    asked(here, "a1").line(line({"x": 1}))
    asked(copy, "a1").line(line({"y": 1}))
    asked(there, "a2").line(line({"x": 1}))
    assert here.missed() == [("a1", ".value.y")]
    assert copy.missed() == [("a1", ".value.x")]
    assert set(here.seen()) == {"a1"}
    here.add(copy.seen())
    assert here.missed() == []
    here.add(there.seen())
    assert here.missed() == [("a2", ".value.y")]


def test_strict_is_of_the_file_or_of_the_caller(tmp_path: Path) -> None:
    plain, strict = policy(tmp_path, FIELDS), policy(tmp_path, f"strict = true\n{FIELDS}")
    given = MaskPolicy(str(tmp_path / "mask.toml"), is_strict=True)
    (tmp_path / "mask.toml").write_text(FIELDS)
    told = MaskPolicy(str(tmp_path / "mask.toml"), is_strict=True)
    is_shown = [
        b'"value":' in asked(each, "a").line(line({"x": 1}))
        for each in (plain, strict, given, told)
    ]
    assert is_shown == [True, False, False, False]
    assert len({plain.fingerprint, strict.fingerprint, told.fingerprint}) == 3
    assert policy(tmp_path, FIELDS).fingerprint == plain.fingerprint


def test_a_fingerprint_differs_for_another_text_and_another_key(tmp_path: Path) -> None:
    text = f'key_file = "mask.key"\n{FIELDS}'
    found = [
        policy(tmp_path, text),
        policy(tmp_path, text, key=f"{KEY}!"),
        policy(tmp_path, f"{text}#"),
    ]
    assert len({each.fingerprint for each in found}) == 3
    assert {len(each.fingerprint) for each in found} == {16}


def test_a_fingerprint_stays_the_same_so_that_exports_go_on(tmp_path: Path) -> None:
    text, key = f'key_file = "mask.key"\n{FIELDS}', KEY.encode()
    found = [
        policy(tmp_path, text),
        MaskPolicy(str(tmp_path / "mask.toml"), is_strict=True),
        policy(tmp_path, FIELDS),
    ]
    assert [each.fingerprint for each in found] == [
        hmac.digest(*given, "sha256").hex()[:16]
        for given in (
            (key, text.encode()),
            (key, b"strict " + text.encode()),
            (b"no key", FIELDS.encode()),
        )
    ]


def test_of_an_unknown_topic_nothing_but_the_place_is_left(tmp_path: Path) -> None:
    mask = policy(tmp_path, FIELDS).drops_all()
    nothing = b',"keyMasked":"dropped","valueMasked":"dropped","headers":[]}\n'
    assert mask.end(line({"x": 1})) == nothing
    assert (
        mask.end(line(1).replace(b'"headers":[]', b'"headers":[{"key":"h","value":"v"}]'))
        == nothing
    )


def test_threads_that_ask_for_a_mask_at_once_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, gate = policy(tmp_path, FIELDS), threading.Barrier(2)
    from kafkafs.masking import policy as module

    def waiting(*given: Any, **more: Any) -> LineMask:
        gate.wait(10)
        return LineMask(*given, **more)

    monkeypatch.setattr(module, "LineMask", waiting)
    masks: list[LineMask | None] = []
    threads = [threading.Thread(target=lambda: masks.append(found.mask("a"))) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert masks[0] is masks[1] is found.mask("a")


def test_a_log_in_no_folder_of_a_topic_is_refused() -> None:
    def source(*, is_named: bool) -> Any:
        log = SimpleNamespace(topic_partition=TopicPartition("orders", 0), is_named=is_named)
        return SimpleNamespace(partitions=lambda: {"loose.log": log})

    require_topics(source(is_named=True))
    with pytest.raises(MaskPolicyError, match=r"^loose\.log is in no folder such as orders-0"):
        require_topics(source(is_named=False))
