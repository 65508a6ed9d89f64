"""What Kafka's TopicTest asks of topics' names."""

from __future__ import annotations

import random
import string

import pytest

from engine.errors import InvalidNameError
from engine.files.file_names import (
    has_collision,
    has_collision_characters,
    has_only_topic_characters,
    unify_collision_characters,
    validate_topic,
)


@pytest.mark.conformance("TopicTest.shouldAcceptValidTopicNames")
def test_should_accept_valid_topic_names() -> None:
    longest = "".join(random.choices(string.ascii_letters + string.digits, k=249))
    for topic in ("valid", "TOPIC", "nAmEs", "ar6", "VaL1d", "_0-9_.", "...", longest):
        validate_topic(topic)


@pytest.mark.conformance("TopicTest.shouldThrowOnInvalidTopicNames")
@pytest.mark.parametrize("topic", ["", "foo bar", "..", "foo:bar", "foo=bar", ".", "a" * 250])
def test_should_throw_on_invalid_topic_names(topic: str) -> None:
    with pytest.raises(InvalidNameError):
        validate_topic(topic)


@pytest.mark.conformance("TopicTest.shouldRecognizeInvalidCharactersInTopicNames")
@pytest.mark.parametrize("character", "/\\,\0:\"';*? \t\r\n=")
def test_should_recognize_invalid_characters_in_topic_names(character: str) -> None:
    assert not has_only_topic_characters(f"Is {character}illegal")
    assert not has_only_topic_characters(f"Is{character}illegal")


@pytest.mark.conformance("TopicTest.testTopicHasCollisionChars")
def test_topic_has_collision_chars() -> None:
    for topic in ("start", "end", "middle", "many"):
        assert not has_collision_characters(topic)
    for topic in (".start", "end.", "mid.dle", ".ma.ny.", "_start", "end_", "mid_dle", "_ma_ny."):
        assert has_collision_characters(topic)


@pytest.mark.conformance("TopicTest.testUnifyCollisionChars")
def test_unify_collision_chars() -> None:
    assert unify_collision_characters("topic") == "topic"
    assert unify_collision_characters(".topic") == "_topic"
    assert unify_collision_characters("_topic") == "_topic"
    assert unify_collision_characters("_.topic") == "__topic"


@pytest.mark.conformance("TopicTest.testTopicHasCollision")
def test_topic_has_collision() -> None:
    periods = [".topic", "to.pic", "topic.", "topic"]
    underscores = ["_topic", "to_pic", "topic_", "topic"]
    for topic in periods + underscores:
        assert has_collision(topic, topic)
    for first, second in zip(periods, underscores, strict=True):
        assert has_collision(first, second)
    for first, second in zip(periods, reversed(underscores), strict=True):
        assert not has_collision(first, second)
