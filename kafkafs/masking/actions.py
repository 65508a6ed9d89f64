"""What a mask does to a field: drop, hash or replace it; and JSON as a mask reads and writes it."""

from __future__ import annotations

import hmac
import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

from engine.lines.json_text import string_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | JsonNumber | bool | None"


class JsonNumber(str):
    """A number of JSON, as its text: no digit is lost."""

    __slots__ = ()


class DroppedField(NamedTuple):
    """What a mask leaves of a dropped field."""


DROPPED = DroppedField()

_LONE = re.compile("[\ud800-\udfff]")
_DECODER = json.JSONDecoder(parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=JsonNumber)


@dataclass(frozen=True, slots=True)
class DropField:
    """Leave the field out."""

    name: ClassVar[str] = "dropped"

    def apply(self, shown: Json | bytes) -> Json | DroppedField:
        """Return no field."""
        return DROPPED


@dataclass(frozen=True, slots=True)
class HashField:
    """Put the HMAC-SHA-256 of the field in its place, as 64 hexadecimal digits.

    A string and the bytes of its UTF-8 have one hash, a number has that of its text, an object or an array that of its
    JSON with sorted names and without spaces. Null stays null.
    """

    key: bytes = field(repr=False)
    name: ClassVar[str] = "hashed"

    def apply(self, shown: Json | bytes) -> Json | DroppedField:
        """Return the hash."""
        return None if shown is None else hmac.digest(self.key, _content(shown), "sha256").hex()


@dataclass(frozen=True, slots=True)
class ReplaceField:
    """Put a text in the place of the field."""

    text: str
    name: ClassVar[str] = "replaced"

    def apply(self, shown: Json | bytes) -> Json | DroppedField:
        """Return the text."""
        return self.text


Action: TypeAlias = "DropField | HashField | ReplaceField"


def read_json(text: str) -> Json:
    """Return the value of a JSON text; of a name that an object has twice, the last value.

    Raises:
        ValueError, RecursionError: the text is no JSON, or too deep.
    """
    found: Json = _DECODER.decode(text)
    return found


def write_json(value: Json, *, is_sorted: bool = False) -> str:
    """Return a value as JSON on one line that is safe to print.

    Raises:
        RecursionError: the value is too deep.
    """
    match value:
        case None | True | False:
            return json.dumps(value)
        case JsonNumber():
            return str(value)
        case str():
            return _string(value)
        case dict():
            items = sorted(value.items()) if is_sorted else value.items()
            pairs = (
                f"{_name(name)}:{write_json(each, is_sorted=is_sorted)}" for name, each in items
            )
            return f"{{{','.join(pairs)}}}"
    return f"[{','.join(write_json(each, is_sorted=is_sorted) for each in value)}]"


def _string(text: str) -> str:
    if not text.isascii() and _LONE.search(text):
        return json.dumps(text)  # half of a surrogate pair is no character: it stays an escape
    return string_json(text)


@lru_cache(maxsize=4096)
def _name(text: str) -> str:
    return _string(text)


def _content(shown: Json | bytes) -> bytes:
    if isinstance(shown, bytes):
        return shown
    text = shown if isinstance(shown, str) else write_json(shown, is_sorted=True)
    return text.encode("utf-8", "surrogatepass")
