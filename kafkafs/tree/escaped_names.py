"""Names that come out of records, as names of files: reversible, and never longer than 255 bytes.

A name is its own UTF-8, but for what a file's name cannot hold or what would drive a terminal: `/`, `%`,
control characters, whatever is not printable, bytes that are not UTF-8, and the whole names "." and "..".
Those bytes become %XX with two hexadecimal digits. The empty name is a lone "%". A name that would be longer
than 255 bytes is cut and ends with "%~" and 16 digits of its hash; it stands for the whole name, and there
is no way back but to compare.
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
    """The file name for a name; lone surrogates in the name stand for bytes that are not UTF-8."""
    if not name:
        return EMPTY
    if name in (".", ".."):
        return "%2E" * len(name)
    whole = "".join(map(_escaped_character, name))
    return whole if len(whole.encode()) <= MOST_BYTES else _cut(name)


def name_of(file_name: str, names: Iterable[str]) -> str | None:
    """The name that a file name stands for; None when it is not what `escaped` makes of any.

    Args:
        file_name: as `escaped` makes it.
        names: all that there are; only looked at for a name that was cut.
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
    """As much of the beginning as fits with the hash of all of it."""
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
