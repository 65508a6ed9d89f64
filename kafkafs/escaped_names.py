"""Reversible escaping of names in records to file names of at most 255 bytes.

A name is kept as UTF-8, except for bytes that a file name cannot hold or that would affect a terminal: `/`, `%`,
control and other unprintable characters, bytes that are not UTF-8, and the whole names "." and "..". They become
%XX with two hexadecimal digits. The empty name becomes a lone "%". A name that would be longer than 255 bytes is
cut, and ends with "%~" and 16 digits of its hash; the full name is found only by comparing it with all names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

MOST_BYTES = 255
EMPTY = "%"
CUT = "%~"
_HASH_DIGITS = 16
_ESCAPE = re.compile(rb"%([0-9A-F]{2})")


def escaped(name: str) -> str:
    """Return the file name for a name. Lone surrogates in the name represent bytes that are not UTF-8."""
    if not name:
        return EMPTY
    if name in (".", ".."):
        return "%2E" * len(name)
    whole = "".join(map(_escaped_character, name))
    return whole if len(whole.encode()) <= MOST_BYTES else _cut(name)


def name_of(file_name: str, names: Iterable[str]) -> str | None:
    """Return the original of a file name, or None if `escaped` produces the file name for no name.

    Args:
        file_name: a result of `escaped`.
        names: all existing names; only read for a name that was cut.
    """
    if file_name == EMPTY:
        return ""
    if CUT in file_name:
        return next((name for name in names if escaped(name) == file_name), None)
    data = file_name.encode("utf-8", "surrogateescape")
    name = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), data)
    plain = name.decode("utf-8", "surrogateescape")
    return plain if escaped(plain) == file_name else None


def _escaped_character(character: str) -> str:
    if character not in "/%" and character.isprintable():
        return character
    data = character.encode("utf-8", "surrogateescape")
    return "".join(f"%{byte:02X}" for byte in data)


def _cut(name: str) -> str:
    """Return the beginning of the escaped name, followed by the hash of the whole name."""
    digest = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=_HASH_DIGITS // 2)
    end = CUT + digest.hexdigest()
    left = MOST_BYTES - len(end)
    kept = []
    for part in map(_escaped_character, name):
        left -= len(part.encode())
        if left < 0:
            break
        kept.append(part)
    return "".join(kept) + end
