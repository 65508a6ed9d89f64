"""The policy file of `--mask`: which fields of which topics are dropped, hashed or replaced.

key_file = "mask.key"
strict = true

[[rules]]
topics = ["customers", "orders*"]

[rules.fields]
".key" = "hash"
".value.customer.email" = "hash"
".value.cards[].number" = "drop"
".value.note" = { replace = "hidden" }

[rules.headers]
authorization = "drop"
"*" = { replace = "hidden" }
"""

from __future__ import annotations

import hashlib
import hmac
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from engine.log.partition_choice import NamePattern
from kafkafs.masking.actions import Action, DropField, HashField, ReplaceField
from kafkafs.masking.field_path import FieldPath
from kafkafs.masking.line_mask import ALL_HEADERS, LineMask, MaskRule

if TYPE_CHECKING:
    from engine.log.log_directory import LogSource

Seen: TypeAlias = "Mapping[str, tuple[frozenset[str], frozenset[str]]]"
"""For each topic the paths that some record had, and those that some record lacked."""
LEAST_KEY = 16
"""Bytes of the shortest key for hashes."""
_MOST_POLICY = 1024 * 1024
_MOST_KEY = 4096


class MaskWarning(UserWarning):
    """A field of a policy that no masked record had: its name may be misspelt, and the field not masked."""


class MaskPolicyError(Exception):
    """A policy that cannot be used: nothing is shown with it."""


def require_topics(source: LogSource) -> None:
    """Check that each log is in a folder that names its topic: a mask is chosen by that name.

    Raises:
        MaskPolicyError: one is not.
    """
    for name, log in source.partitions().items():
        if not log.is_named:
            raise MaskPolicyError(
                f"{name} is in no folder such as orders-0, and a mask is chosen by the name of the topic:"
                " put it into such a folder"
            )


class _TopicRule(NamedTuple):
    topics: tuple[NamePattern, ...]
    rule: MaskRule


class MaskPolicy:
    """The rules of a policy file. Picklable, with its key: a copy needs no file.

    Args:
        path: path of the file.
        is_strict: whether a key or value that lacks a field of a rule is unreadable, also if the file does not say so.

    Raises:
        MaskPolicyError: the file or its key cannot be read, or breaks the format.

    Attributes:
        fingerprint: differs for policies with another text or another key.
    """

    def __init__(self, path: str, *, is_strict: bool = False) -> None:
        self._path = Path(path)
        self._is_strict = is_strict
        self._masks: dict[str, LineMask | None] = {}
        self._key = b""
        text = _content(self._path, _MOST_POLICY)
        try:
            self._rules = self._read(tomllib.loads(text.decode()))
        except (ValueError, TypeError, RecursionError) as error:
            raise MaskPolicyError(f"{path} is no policy of masks: {error}") from None
        strict = b"strict " if self._is_strict else b""
        digest = hmac.digest(self._key or b"no key", strict + text, hashlib.sha256)
        self.fingerprint = digest.hex()[:16]

    def mask(self, topic: str) -> LineMask | None:
        """Return the mask of a topic, the same each time; None for a topic that no rule names."""
        if topic not in self._masks:
            rules = tuple(
                each.rule for each in self._rules if any(p.matches(topic) for p in each.topics)
            )
            mask = LineMask(rules, is_strict=self._is_strict) if rules else None
            self._masks.setdefault(topic, mask)  # of two threads the first makes it for both
        return self._masks[topic]

    def drops_all(self) -> LineMask:
        """Return a mask for records of an unknown topic: nothing but their place is left."""
        fields = tuple((FieldPath.parse(each), DropField()) for each in (".key", ".value"))
        return LineMask((MaskRule(fields, {ALL_HEADERS: DropField()}),))

    @property
    def patterns(self) -> list[NamePattern]:
        """The topics of all rules."""
        return [pattern for each in self._rules for pattern in each.topics]

    def missed(self) -> list[tuple[str, str]]:
        """Return topics, and paths that some of their records lacked and none had."""
        return [(topic, text) for topic, mask in self._used() for text in mask.missed]

    def seen(self) -> Seen:
        """Return which paths records had and lacked: what another process may `add`."""
        return {
            topic: (frozenset(mask.met), frozenset(mask.lacked)) for topic, mask in self._used()
        }

    def add(self, seen: Seen) -> None:
        """Take what was masked elsewhere with a copy of the policy."""
        for topic, (met, lacked) in seen.items():
            mask = self.mask(topic)
            assert mask is not None
            mask.met.update(met)
            mask.lacked.update(lacked)

    def _used(self) -> list[tuple[str, LineMask]]:
        """Return the topics that were asked for and have a mask."""
        return [(topic, mask) for topic, mask in list(self._masks.items()) if mask is not None]

    def _read(self, found: Mapping[str, Any]) -> list[_TopicRule]:
        _only(found, "key_file", "rules", "strict")
        self._is_strict |= _typed(found.get("strict", False), bool, "strict")
        key: bytes | None = None
        if "key_file" in found:
            name = _typed(found["key_file"], str, "key_file")
            key = _content(self._path.parent / name, _MOST_KEY).rstrip(b"\r\n")
            self._key = key
            if len(key) < LEAST_KEY:
                raise ValueError(f"the key in key_file has fewer than {LEAST_KEY} bytes")
        rules = _typed(found.get("rules", []), list, "rules")
        if not rules:
            raise ValueError("it has no [[rules]]")
        return [_rule(_typed(each, dict, "rules"), key) for each in rules]


def _rule(found: Mapping[str, Any], key: bytes | None) -> _TopicRule:
    _only(found, "topics", "fields", "headers")
    topics = _typed(found.get("topics", []), list, "topics")
    fields = _typed(found.get("fields", {}), dict, "fields")
    headers = _typed(found.get("headers", {}), dict, "headers")
    if not topics or not (fields or headers):
        raise ValueError("a rule needs topics, and fields or headers")
    return _TopicRule(
        tuple(NamePattern.parse(_typed(each, str, "topics")) for each in topics),
        MaskRule(
            tuple((FieldPath.parse(path), _action(each, key)) for path, each in fields.items()),
            {name.lower(): _action(each, key) for name, each in headers.items()},
        ),
    )


def _action(found: Any, key: bytes | None) -> Action:  # noqa: ANN401 - of a file
    match found:
        case "drop":
            return DropField()
        case "hash":
            if key is None:
                raise ValueError('"hash" needs a key_file')
            return HashField(key)
        case {"replace": str(text)} if len(found) == 1:
            return ReplaceField(text)
    raise ValueError('an action is "drop", "hash" or { replace = "text" }')


def _only(found: Mapping[str, Any], *names: str) -> None:
    for name in found:
        if name not in names:
            raise ValueError(f"{name!r} is none of {', '.join(names)}")


def _typed(found: Any, kind: type, name: str) -> Any:  # noqa: ANN401 - of a file
    if not isinstance(found, kind):
        raise ValueError(f"{name} is not of the type {kind.__name__}")
    return found


def _content(path: Path, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise MaskPolicyError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise MaskPolicyError(f"{path} has more than {most} bytes")
    return data
