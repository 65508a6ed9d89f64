"""The names of types, and the topics whose names tell their type."""

from __future__ import annotations

import pytest

from kafkafs.schemas.topic_type import TYPES, WRAPPERS, TopicType, type_by_name


@pytest.mark.parametrize("text", [*TYPES, *WRAPPERS, *(f"{each}/json" for each in WRAPPERS)])
def test_a_type_has_what_wraps_it(text: str) -> None:
    kind = TopicType.parse(text)
    assert "/".join((*kind.wrappers, *([kind.name] if kind.name else []))) == text
    assert kind.is_alone == (text in TYPES)


@pytest.mark.parametrize(
    "text", ["", "int65", "json/gzip", "gzip/", "/json", "half", "gzip/int64/int64"]
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not known; types are boolean"):
        TopicType.parse(text)


@pytest.mark.parametrize(
    "charset", ["", "utf-99", "base64", "rot13", "idna", "punycode", "utf-7", "unicode_escape", "undefined", "a\0"]
)  # fmt: skip
def test_charsets_that_are_none_are_refused(charset: str) -> None:
    with pytest.raises(ValueError, match=r"charset .* is not known"):
        TopicType.parse("string", charset)


def test_only_strings_have_a_charset() -> None:
    assert TopicType.parse("gzip/string", "Latin-1").charset == "iso8859-1"
    for text in ("json", "gzip", "int64"):
        with pytest.raises(ValueError, match="has no charset"):
            TopicType.parse(text, "latin-1")


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("mm2-offset-syncs.backup.internal", "mirror-offset-sync"),
        ("primary.checkpoints.internal", "mirror-checkpoint"),
        ("heartbeats", "mirror-heartbeat"),
        ("primary.heartbeats", "mirror-heartbeat"),
        ("mm2-configs.primary.internal", None),
        ("mm2-offset-syncs.internal", None),
        ("checkpoints.internal", None),
        ("myheartbeats", None),
        ("orders", None),
    ],
)
def test_the_names_of_mirror_makers_topics_tell_their_type(topic: str, name: str | None) -> None:
    found = type_by_name(topic)
    assert (found and found.name) == name
    if found is not None:
        assert found.is_guess == topic.endswith("heartbeats")
