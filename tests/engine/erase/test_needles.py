"""Texts are found in all their forms, wherever they stand, and nothing else is."""

from __future__ import annotations

import base64
import json
from random import Random

import pytest

from engine.erase.needles import Needles

TEXT = "Zoë-4711@example.org".encode()


@pytest.mark.parametrize("lead", range(4))
@pytest.mark.parametrize(
    ("form", "written"),
    [
        ("bytes", lambda text: text),
        ("hex", lambda text: text.hex().encode()),
        ("hex", lambda text: text.hex().upper().encode()),
        ("Base64", lambda text: base64.b64encode(b"abc" + text + b"d")),
        ("Base64", lambda text: base64.b64encode(b"abcd" + text + b"d")),
        ("Base64", lambda text: base64.urlsafe_b64encode(b"abcde" + text + b"d")),
        ("UTF-16", lambda text: text.decode().encode("utf-16-be")),
        ("JSON", lambda text: json.dumps(text.decode()).encode()),
    ],
)
def test_a_text_is_found_in_each_form(form: str, written, lead: int) -> None:  # type: ignore[no-untyped-def]
    needles = Needles([("key", TEXT), ("key", b"another one")])
    found = list(needles.found(b"." * lead + written(TEXT) + b"." * lead))
    assert {(needle.of, needle.form) for _, needle in found} == {("key", form)}


def test_many_texts_are_told_apart() -> None:
    draw = Random(5)
    texts = [b'{"id":%d,"name":"n%d"}' % (each, draw.randrange(10**6)) for each in range(500)]
    needles = Needles([("value", text) for text in texts])
    for each in draw.sample(range(500), 20):
        data = draw.randbytes(1000) + texts[each] + draw.randbytes(50)
        assert [(at, needle.text) for at, needle in needles.found(data)] == [(1000, texts[each])]
    assert not list(needles.found(b'{"id":501,"name":"n"}' * 100))


def test_what_is_too_short_is_not_looked_for() -> None:
    assert not Needles([("key", b"k1")])
    assert not list(Needles([]).found(b"anything"))
