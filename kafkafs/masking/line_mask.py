"""The mask of one topic: record lines in, masked record lines out, or masked keys, values and headers.

A masked line has the fields that are named here and no other, so that a field which a record line gets later is not shown
by mistake. `keyMasked` and `valueMasked` say what was done to a whole key or value: dropped, hashed, replaced, or
unreadable: its bytes are not decoded.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from engine.record.record import Header
from kafkafs.masking.actions import (
    DROPPED,
    Action,
    DroppedField,
    Json,
    read_json,
    write_json,
)
from kafkafs.masking.field_path import FieldPath, Names, protobuf_names

Made = TypeVar("Made")

_HEAD = re.compile(
    rb'\{"topic":"(?:[^"\\]|\\.)*","partition":-?\d+,"offset":-?\d+,"timestamp":-?\d+,'
    rb'"time":(?:null|"[0-9TZ:.+-]*"),"timestampType":"\w*"'
)
_DETAILS = {"key": ("keyEncoding", "keySchema"), "value": ("valueEncoding", "schema")}
AFTER_HEADERS = ("leaderEpoch", "sequence", "transaction", "belowLogStart")
_PLACE = ("file", "position", "length", "kind", "firstOffset", "lastOffset", "record", "elsewhere")
_BYTES = ("base64", "hex")
_JSON = "json"
_TEXT = "text"
_UNREADABLE = "unreadable"
ALL_HEADERS = "*"


class MaskRule(NamedTuple):
    """What is done to the fields of some topics.

    Attributes:
        fields: actions on keys, values, or fields in them.
        headers: actions on headers by name in lower case; ALL_HEADERS for those with another name.
    """

    fields: tuple[tuple[FieldPath, Action], ...]
    headers: Mapping[str, Action]


class MaskedField(NamedTuple):
    """What is left of a key or value.

    Attributes:
        content: bytes: a text, or JSON on one line; `unreadable` for what cannot be shown; None for null and for what
            is dropped.
        json: the same as JSON if it was decoded with a schema or as one of Kafka's own.
        encoding, schema: those of the JSON.
        done: what was done to all of it: dropped, hashed, replaced or unreadable; None for anything else.
        is_exact: whether no rule names the field or a part of it, and its bytes can be read: they may be shown.
    """

    content: bytes | None
    json: bytes | None = None
    encoding: bytes = b""
    schema: bytes | None = None
    done: str | None = None
    is_exact: bool = False


class MaskedRecord(NamedTuple):
    """What is left of a record: key, value, and headers in order."""

    key: MaskedField
    value: MaskedField
    headers: tuple[Header, ...]


class LineMask:
    """Masks the record lines of a topic. Thread-safe.

    Args:
        rules: the rules of the topic, applied one after the other; at least one.
        is_strict: whether a key or value that lacks a field of a rule is unreadable.

    Attributes:
        met, lacked: texts of the paths that some record had, and of those that some record lacked.
    """

    def __init__(self, rules: tuple[MaskRule, ...], *, is_strict: bool = False) -> None:
        self.rules = rules
        self._is_strict = is_strict
        self.met: set[str] = set()
        self.lacked: set[str] = set()

    @property
    def paths(self) -> list[FieldPath]:
        """All paths of the rules."""
        return [path for rule in self.rules for path, _ in rule.fields]

    @property
    def missed(self) -> list[str]:
        """Texts of the paths that some record lacked and none had."""
        return [
            text
            for text in dict.fromkeys(path.text for path in self.paths)
            if text in self.lacked - self.met
        ]

    @property
    def masks_keys(self) -> bool:
        """Whether something is done to keys."""
        return any(path.root == "key" for path in self.paths)

    def lines(self, text: bytes) -> bytes:
        """Return whole record lines, masked."""
        return b"".join(self.line(line) for line in text.split(b"\n") if line)

    def line(self, line: bytes) -> bytes:
        """Return one record line, masked. Of a line that cannot be read only the place of the record is left."""
        head = _HEAD.match(line)
        assert head is not None
        return head[0] + self.end(line)

    def end(self, line: bytes, without: Collection[str] = ()) -> bytes:
        """Return what is behind the place of the record in a masked record line, without some fields."""

        def written(rest: dict[str, Json]) -> bytes:
            kept = {name: each for name, each in rest.items() if name not in without}
            return b",%s\n" % write_json(kept)[1:].encode()

        return self._tried(line, written)

    def _tried(self, line: bytes, make: Callable[[dict[str, Json]], Made]) -> Made:
        """Return what is made of the masked fields of a line; of none where these cannot be read or written."""
        try:
            found: Any = read_json(line.decode())
            return make(self._rest(found))
        except Exception:  # noqa: BLE001 - what cannot be masked is not shown
            return make({"keyMasked": _UNREADABLE, "valueMasked": _UNREADABLE, "headers": []})

    def record(self, line: bytes) -> MaskedRecord:
        """Return what is left of the record of a record line."""
        return self._tried(line, self._record)

    def _record(self, rest: Mapping[str, Any]) -> MaskedRecord:
        headers = (
            Header(
                each["key"].encode("utf-8", "replace"),
                _content(each["value"], each.get("valueEncoding")),
            )
            for each in rest["headers"]
        )
        return MaskedRecord(self._left("key", rest), self._left("value", rest), tuple(headers))

    def _left(self, root: str, rest: Mapping[str, Any]) -> MaskedField:
        done = rest.get(f"{root}Masked")
        if root not in rest:
            # Null is a tombstone, which a record is not whose value cannot be shown.
            return MaskedField(_UNREADABLE.encode() if done == _UNREADABLE else None, done=done)
        encoding, schema = (rest.get(name) for name in _DETAILS[root])
        content, is_exact = _content(rest[root], encoding), not self._actions(root)
        if done is not None or encoding in (None, _JSON):
            return MaskedField(content, done=done, is_exact=is_exact and done is None)
        shown = None if schema is None else write_json(schema).encode()
        return MaskedField(content, content, encoding.encode(), shown, is_exact=is_exact)

    def damage(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return the facts of a damaged place without the reason, which may have numbers of a record's bytes."""
        kept = {name: facts[name] for name in _PLACE if name in facts}
        return {**kept, "reason": "the records cannot be read"}

    def _rest(self, found: Mapping[str, Any]) -> dict[str, Json]:
        made: dict[str, Json] = {}
        if "control" in found:
            made["control"] = found["control"]
        for root, details in _DETAILS.items():
            try:
                made |= self._field(root, found, details)
            except Exception:  # noqa: BLE001 - what an action fails at is not shown
                made[f"{root}Masked"] = _UNREADABLE
        made["headers"] = [
            header for each in found["headers"] if (header := self._header(each)) is not None
        ]
        return made | {name: found[name] for name in AFTER_HEADERS if name in found}

    def _field(
        self, root: str, found: Mapping[str, Any], details: tuple[str, str]
    ) -> dict[str, Json]:
        """Return a key or value and what belongs to it."""
        encoding = found.get(details[0])
        if root not in found:  # of a large record only sizes are here
            return {f"{root}Masked": _UNREADABLE}
        shown, inner = found[root], (encoding or "").rpartition("/")[2]  # as json of gzip/json
        left, done = (
            self._of_bytes(root, shown, inner)
            if inner in _BYTES and isinstance(shown, str)
            else self._of_json(root, shown, protobuf_names if inner == "protobuf" else None)
        )
        if isinstance(left, DroppedField):
            return {f"{root}Masked": done}
        if done is not None:
            return {root: left, f"{root}Masked": done}
        return {root: left, **{name: found[name] for name in details if name in found}}

    def _of_json(
        self, root: str, shown: Json, names: Names | None
    ) -> tuple[Json | DroppedField, str | None]:
        """Return what the actions leave of a key or value, and what was done to all of it."""
        left, done, lacks_some = shown, None, False
        for path, action in self._actions(root):
            masked, is_met, is_lacking = path.masked(left, action, names)
            if is_lacking:  # perhaps because an action before took the field
                _, is_met, is_lacking = path.masked(shown, action, names)
            if is_met:
                self.met.add(path.text)
            if is_lacking:
                self.lacked.add(path.text)
                lacks_some = True
            if isinstance(masked, DroppedField):
                return masked, action.name
            left = masked
            if isinstance(left, str):
                done = action.name
        return (DROPPED, _UNREADABLE) if lacks_some and self._is_strict else (left, done)

    def _of_bytes(self, root: str, shown: str, encoding: str) -> tuple[Json | DroppedField, str]:
        """Return what is shown of bytes that are not decoded: what the first action on all of them leaves, or nothing."""
        for path, action in self._actions(root):
            if not path.steps:
                data = bytes.fromhex(shown) if encoding == "hex" else base64.b64decode(shown)
                return action.apply(data), action.name
        return DROPPED, _UNREADABLE

    def _actions(self, root: str) -> list[tuple[FieldPath, Action]]:
        return [each for rule in self.rules for each in rule.fields if each[0].root == root]

    def _header(self, header: Mapping[str, Any]) -> dict[str, Json] | None:
        """Return a header; None for one that is dropped, or at which an action fails."""
        try:
            return self._shown_header(header)
        except Exception:  # noqa: BLE001
            return None

    def _shown_header(self, header: Mapping[str, Any]) -> dict[str, Json] | None:
        name = header["key"]
        if "keyEncoding" in header:
            return None
        shown = header["value"]
        is_bytes, is_masked = header.get("valueEncoding") in _BYTES, False
        for rule in self.rules:
            action = rule.headers.get(name.lower(), rule.headers.get(ALL_HEADERS))
            if action is not None:
                data = base64.b64decode(shown) if is_bytes and not is_masked else shown
                shown, is_masked = action.apply(data), True
                if isinstance(shown, DroppedField):
                    return None
        if is_bytes and not is_masked:
            return None
        details = (
            {}
            if is_masked or "valueEncoding" not in header
            else {"valueEncoding": header["valueEncoding"]}
        )
        return {"key": name, "value": shown, **details}


def _content(shown: Json, encoding: str | None) -> bytes | None:
    """Return a key or value as bytes: a text as it is, anything else as JSON; None for null that nothing encodes."""
    if shown is None and encoding is None:
        return None
    if isinstance(shown, str) and encoding in (None, _TEXT):
        return shown.encode("utf-8", "replace")
    return write_json(shown).encode()
