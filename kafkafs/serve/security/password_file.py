"""Names and passwords of the clients that may read: a file with a line NAME:PASSWORD for each."""

from __future__ import annotations

import os
import stat

_MOST_BYTES = 16 * 1024 * 1024


class PasswordFileError(Exception):
    """The file cannot be read, or breaks its form; the sentence has no part of a password."""


def read_password_file(path: str) -> dict[str, str]:
    """Return passwords by name.

    A name ends at the first colon; the password is the rest of the line, blanks included. Empty lines, and lines that
    begin with #, are passed over.

    Raises:
        PasswordFileError: the file cannot be read, a line has another form, or a name is there twice.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise PasswordFileError(f"{path}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise PasswordFileError(f"{path} has more than {_MOST_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise PasswordFileError(f"{path} is not UTF-8") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not (name and colon and password):
            raise PasswordFileError(f"{path}, line {number}: not NAME:PASSWORD")
        if name in found:
            raise PasswordFileError(f"{path}, line {number}: the name is there twice")
        found[name] = password
    if not found:
        raise PasswordFileError(f"{path} has no NAME:PASSWORD")
    return found


def is_exposed(path: str) -> bool:
    """Return whether other users than the owner may read or change a file."""
    return bool(stat.S_IMODE(os.stat(path).st_mode) & 0o077)
