"""A policy names topics, fields and headers; one that breaks the format is an error, and no part of it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkafs.masking.actions import HashField
from kafkafs.masking.policy import MaskPolicy, MaskPolicyError

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
    with pytest.raises(MaskPolicyError, match="fewer than 16 bytes") as caught:
        policy(tmp_path, f'key_file = "mask.key"\n{RULE}', key="hunter2")
    assert "hunter2" not in str(caught.value)


def test_a_hash_is_the_hmac_of_rfc_4231_and_does_not_show_its_key() -> None:
    key = b"\x0b" * 20
    action = HashField(key)
    expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
    assert action.apply("Hi There") == action.apply(b"Hi There") == expected
    assert repr(action) == "HashField()"
