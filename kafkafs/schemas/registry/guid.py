"""The GUID of a schema: MD5 over its text, references, metadata and rules, as Confluent's `Schema.updateHash` makes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import md5
from uuid import UUID

from kafkafs.schemas.schema import JsonValue, Reference

_RULES = ("migrationRules", "domainRules", "encodingRules")
_RULE_TEXTS = ("name", "doc", "kind", "mode", "type")
_RULE_ENDS = ("expr", "onSuccess", "onFailure")


def guid_of(
    text: str,
    references: tuple[Reference, ...] = (),
    metadata: Mapping[str, JsonValue] | None = None,
    rule_set: Mapping[str, JsonValue] | None = None,
) -> str:
    """Return the GUID of a schema: a UUID in lower case.

    Example:
        >>> guid_of('"string"')
        '095d71cf-1255-6b9d-5e33-0ad575b3df5d'
    """
    digest = md5(_utf8(text), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(_utf8(name) + _utf8(subject) + (version & 0xFFFFFFFF).to_bytes(4, "big"))
    # The byte 1 tells empty metadata from none.
    if metadata is not None:
        digest.update(b"\x01" + b"".join(map(_utf8, _metadata_texts(metadata))))
    if rule_set is not None:
        digest.update(b"\x01" + b"".join(_rule_set_bytes(rule_set)))
    return str(UUID(bytes=digest.digest()))


def _metadata_texts(metadata: Mapping[str, JsonValue]) -> Iterator[str]:
    tags = metadata.get("tags") or {}
    for name in sorted(tags, key=_java_order):
        yield name
        yield from _sorted_set(tags[name])
    yield from _pairs(metadata.get("properties"))
    yield from _sorted_set(metadata.get("sensitive"))


def _rule_set_bytes(rule_set: Mapping[str, JsonValue]) -> Iterator[bytes]:
    for rules in _RULES:
        for rule in rule_set.get(rules) or ():
            yield from map(_utf8, _rule_texts(rule))
            if rule.get("disabled"):
                yield b"\x01"
    yield _utf8(rule_set.get("enableAt") or "")


def _rule_texts(rule: Mapping[str, JsonValue]) -> Iterator[str]:
    yield from (rule.get(name) or "" for name in _RULE_TEXTS)
    yield from _sorted_set(rule.get("tags"))
    yield from _pairs(rule.get("params"))
    yield from (rule.get(name) or "" for name in _RULE_ENDS)


def _pairs(values: Mapping[str, JsonValue] | None) -> Iterator[str]:
    """Yield the keys and values of a TreeMap."""
    for name in sorted(values or {}, key=_java_order):
        yield name
        yield (values or {})[name]


def _sorted_set(values: list[JsonValue] | None) -> list[str]:
    """Return the texts of a TreeSet, in its order."""
    return sorted(set(values or ()), key=_java_order)


def _java_order(text: str) -> bytes:
    """Return a key that sorts as Java's String.compareTo does, by UTF-16 code units."""
    return text.encode("utf-16-be", "surrogatepass")


def _utf8(text: str) -> bytes:
    """Return the bytes of a text as Java's getBytes(UTF_8) does."""
    return text.encode("utf-8", "replace")
