"""Bytes as JSON: what becomes a string, what is embedded, what is escaped; the reference of the kernel."""

from __future__ import annotations

import base64
import json
import unicodedata

import orjson
import pytest
from hypothesis import given, strategies as st

from engine.lines.json_text import (
    JSON_DEPTH,
    JSON_NUMBER,
    LAST_TIME,
    Values,
    bytes_json,
    hide,
    minified_container,
    string_json,
    time_json,
)

BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
LETTERS = {0x22: '\\"', 0x5C: "\\\\", 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}


def is_dangerous(character: str) -> bool:
    """By Unicode's own tables: controls, what reorders text, line separators, and what has no width."""
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cc", "Zl", "Zp")
        or unicodedata.bidirectional(character) in BIDI
        or code in (0x061C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0xFEFF)
        or 0x2060 <= code <= 0x206F
        or 0xE0000 <= code <= 0xE007F
    )


def test_each_character_is_shown_as_it_is_or_as_its_escape():
    for code in range(0x110000):
        character = chr(code)
        if 0xD800 <= code < 0xE000:
            continue
        if code in LETTERS:
            expected = LETTERS[code]
        elif is_dangerous(character):
            units = character.encode("utf-16-be").hex()
            expected = "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        else:
            expected = character
        if string_json(character) != f'"{expected}"':
            pytest.fail(f"U+{code:04X} is shown as {string_json(character)!a}")


@given(st.text())
def test_a_string_reads_back(text):
    shown = string_json(text)
    assert json.loads(shown) == orjson.loads(shown) == text
    assert bytes_json(text.encode(), Values.TEXT) == (shown.encode(), None)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80", b"\xc0\x80", b"\xc1\xbf", b"\xc2", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xed\xbf\xbf",
        b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"ok\xe2\x82", b'{"a":"\xff"}',
    ],
)  # fmt: skip
def test_what_is_not_utf8_is_base64_in_each_mode_that_prefers_text(data):
    expected = (b'"' + base64.b64encode(data) + b'"', "base64")
    for values in (Values.AUTO, Values.TEXT, Values.JSON, Values.BASE64):
        assert bytes_json(data, values) == expected


@given(st.binary())
def test_base64_and_hex_are_always_what_they_are_asked_to_be(data):
    text, encoding = bytes_json(data, Values.BASE64)
    assert (base64.b64decode(json.loads(text), validate=True), encoding) == (data, "base64")
    text, encoding = bytes_json(data, Values.HEX)
    assert (bytes.fromhex(json.loads(text)), encoding) == (data, "hex")
    with pytest.raises(ValueError, match="nothing to show"):
        bytes_json(data, Values.NONE)


# ---- embedded JSON

EMBEDDED = [
    ("{}", "{}"),
    ("[]", "[]"),
    (" \t\r\n{ \n} \t", "{}"),
    ('{"id": 35 , "n":[1, -0, 0.50, 1E+2, -1.5e-07]}', '{"id":35,"n":[1,-0,0.50,1E+2,-1.5e-07]}'),
    ('[ true , false , null , "" ]', '[true,false,null,""]'),
    ('{"a":1,"a":2}', '{"a":1,"a":2}'),
    ('{"b":1,"a":12345678901234567890.000}', '{"b":1,"a":12345678901234567890.000}'),
    ("[1e400]", "[1e400]"),
    ('["a b  c"]', '["a b  c"]'),
    (r'["\"\\\/\b\f\n\r\t\u0000\u001b\u00e9\ud83d\ude00\uD83D\uDE00"]',) * 2,
    ('["é中😀"]', '["é中😀"]'),
    ('{"\x7f":"\x85\u200b"}', '{"\\u007f":"\\u0085\\u200b"}'),
    ('["\U000e0041\u202e"]', '["\\udb40\\udc41\\u202e"]'),
    ('[["[{]}"]]', '[["[{]}"]]'),
    ("[" * JSON_DEPTH + "]" * JSON_DEPTH,) * 2,
    ('{"a":' * JSON_DEPTH + "0" + "}" * JSON_DEPTH,) * 2,
    ("[" + "1" * JSON_NUMBER + "]",) * 2,
]
NOT_EMBEDDED = [
    "", " ", "null", "true", "1", '"text"', "{", "}", "[", "]", "[}", "{]", "{{}", "[]]", "[][]", "{}{}", "[] []", "{},{}",
    "[,]", "[1,]", "[,1]", "[1 2]", "[1:2]", "[:]", "{,}", "{:}", '{"a"}', '{"a":}', '{"a",1}', '{"a":1,}', '{"a":1 "b":2}', '{"a":1:2}',
    "{a:1}", "{1:2}", "{'a':1}", "{[]:1}", "{null:1}", "[01]", "[-]", "[+1]", "[.5]", "[1.]", "[1.e5]", "[1e]", "[1e+]", "[--1]", "[0x10]", "[1_0]",
    "[NaN]", "[Infinity]", "[-Infinity]", "[nul]", "[True]", "[truefalse]", "[nulll]", '["]', '["\\"]', '["\t"]', '["\n"]', '["\x00"]',
    '["\\a"]', '["\\u12"]', '["\\u12g4"]', '["\\u 123"]', '["\\U0041"]', '["\\x41"]', "['a']", '["a]', '["\\ud800"]', '["\\udc00"]',
    '["\\ud83d\\ud83d"]', '["\\ud83dx"]', '["\\ud83d\\n"]', '["\\ude00\\ud83d"]', '["\\ud83d\\u0041"]', "\ufeff{}", "{}\ufeff", "[]\x00", "[\x0b]", "[\x0c1]",
    "[\xa01]", "[\u20281]", "[] // x", "[/* x */]", "[" * (JSON_DEPTH + 1) + "]" * (JSON_DEPTH + 1),
    '{"a":' * (JSON_DEPTH + 1) + "0" + "}" * (JSON_DEPTH + 1), "[" + "1" * (JSON_NUMBER + 1) + "]", "[0." + "1" * (JSON_NUMBER - 1) + "]", "[٣]", "[１]",
    "[" * 100_000, '{"a":' * 100_000 + "}", "[" + '"\\' * 1000 + "]", "[1}", '{"a":1]', "[]}", "[[]", "{\"a\":{}", '[{"a":[}]]',
]  # fmt: skip


@pytest.mark.parametrize(("text", "minified"), EMBEDDED)
def test_one_json_object_or_array_is_embedded_without_its_space(text, minified):
    for values in (Values.AUTO, Values.JSON):
        assert bytes_json(text.encode(), values) == (minified.encode(), "json")
    assert bytes_json(text.encode(), Values.TEXT) == (string_json(text).encode(), None)
    assert json.loads(minified) == json.loads(text)


@pytest.mark.parametrize("text", NOT_EMBEDDED, ids=lambda text: ascii(text[:30]))
def test_anything_else_is_a_string(text):
    assert bytes_json(text.encode()) == (string_json(text).encode(), None)


def refuse(word: str) -> None:
    raise ValueError(word)


def pairs(items: list[tuple[str, object]]) -> tuple[str, object]:
    return ("object", items)


def read(text: str) -> object:
    """With key order, doubled names and the spelling of numbers; ValueError when it is not JSON."""
    return json.loads(
        text,
        parse_constant=refuse,
        parse_int=lambda digits: ("number", digits),
        parse_float=lambda digits: ("number", digits),
        object_pairs_hook=pairs,
    )


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
documents = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
).filter(lambda document: isinstance(document, (list, dict)))


@given(documents, st.booleans(), st.sampled_from([None, 0, 3, "\t\r\n"]))
def test_every_document_that_json_writes_is_embedded_and_says_the_same(
    document, ascii_only, indent
):
    text = json.dumps(document, ensure_ascii=ascii_only, indent=indent)
    shown, encoding = bytes_json(text.encode())
    assert encoding == "json"
    assert read(shown.decode()) == read(text)
    assert (
        shown == hide(json.dumps(document, ensure_ascii=ascii_only, separators=(",", ":"))).encode()
    )


@given(documents, st.data())
def test_a_changed_document_is_embedded_exactly_when_json_still_reads_it(document, data):
    characters = list(json.dumps(document, ensure_ascii=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(characters)))
        insert = data.draw(st.sampled_from([*'{}[],:"\\ 0-.eutn\n\x00', "\\u00e9", "\\ud800"]))
        characters[at : at + data.draw(st.integers(0, 1))] = [insert]
    text = "".join(characters)
    try:
        value = read(text)
        orjson_reads = "\\ud" not in text.lower() or orjson.loads(text) is not None
    except ValueError:
        value, orjson_reads = None, False
    expected = orjson_reads and (
        isinstance(value, list) or (isinstance(value, tuple) and value[0] == "object")
    )
    minified = minified_container(text)
    assert (minified is not None) == expected
    if minified is not None:
        assert read(minified) == value


# ---- times


@pytest.mark.parametrize(
    ("ms", "shown"),
    [
        (0, b'"1970-01-01T00:00:00.000Z"'),
        (1_700_000_035_123, b'"2023-11-14T22:13:55.123Z"'),
        (951_782_400_000, b'"2000-02-29T00:00:00.000Z"'),
        (4_107_542_399_999, b'"2100-02-28T23:59:59.999Z"'),
        (LAST_TIME, b'"9999-12-31T23:59:59.999Z"'),
        (LAST_TIME + 1, b"null"),
        (2**63 - 1, b"null"),
        (-1, b"null"),
        (-(2**63), b"null"),
    ],
)
def test_times(ms, shown):
    assert time_json(ms) == shown
