"""The server's side of SASL: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).

A login with a name that does not exist takes the same steps and the same time as one with a wrong password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import NoReturn, Protocol

PLAIN = "PLAIN"
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Hash of each mechanism of SCRAM."""
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", PLAIN)
"""Mechanisms in the order in which clients are told them."""

_ITERATIONS = 4096
"""The least that Kafka's clients accept; each login costs the server as many hashes."""
_SHOWN_NAME = 100


class LoginRefused(Exception):
    """A client did not prove who it is; the sentence has no part of a password."""


class Users:
    """Names and passwords.

    Args:
        passwords: passwords by name.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self._secret = secrets.token_bytes(32)

    def salt(self, name: str) -> bytes:
        """Return the salt of a name, whether there is such a user or not."""
        return self._of_name(name, b"salt")[:16]

    def password(self, name: str) -> bytes:
        """Return the password of a name; bytes that nobody can guess if there is no such user."""
        known = self._passwords.get(name)
        return self._of_name(name, b"nobody") if known is None else known.encode()

    def knows(self, name: str) -> bool:
        """Return whether there is such a user."""
        return name in self._passwords

    def _of_name(self, name: str, purpose: bytes) -> bytes:
        return hmac.digest(
            self._secret, purpose + name.encode("utf-8", "backslashreplace"), "sha256"
        )


class Mechanism(Protocol):
    """One login by a mechanism."""

    user: str | None
    """Name of the client once it has proved it."""

    def answer(self, token: bytes) -> bytes:
        """Return the answer to the client's next bytes. May take milliseconds.

        Raises:
            LoginRefused: the bytes have another form, or prove nothing.
        """


def start(mechanism: str, users: Users) -> Mechanism:
    """Return a new login by one of MECHANISMS."""
    return _Plain(users) if mechanism == PLAIN else _Scram(users, SCRAM[mechanism])


class _Plain:
    """The client sends name and password."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        parts = token.split(b"\0")
        if len(parts) != 3:
            raise LoginRefused("the bytes are not those of PLAIN")
        acting, name, password = (_text(part) for part in parts)
        given, known = (
            hashlib.sha256(each).digest()
            for each in (password.encode(), self._users.password(name))
        )
        if not hmac.compare_digest(given, known) or not self._users.knows(name):
            _refuse(name)
        if acting not in ("", name):
            raise LoginRefused(f"{_shown(name)} may not act for {_shown(acting)}")
        self.user = name
        return b""


class _Scram:
    """Client and server prove to each other that they know the password, and send it not."""

    def __init__(self, users: Users, hash_name: str) -> None:
        self._users = users
        self._hash = hash_name
        self._name: str | None = None
        self._binding = b""
        self._nonces: tuple[str, ...] = ()
        self._messages = ""
        self.user: str | None = None

    def answer(self, token: bytes) -> bytes:
        text = _text(token)
        return self._first(text) if self._name is None else self._final(text, self._name)

    def _first(self, text: str) -> bytes:
        channel, _, rest = text.partition(",")
        acting, comma, bare = rest.partition(",")
        fields = _fields(bare)
        if channel not in ("n", "y") or not comma or list(fields)[:2] != ["n", "r"]:
            raise LoginRefused("the first bytes are not those of SCRAM without channel binding")
        name = _unescaped(fields["n"])
        if _unescaped(acting.removeprefix("a=")) not in ("", name):
            raise LoginRefused(f"{_shown(name)} may not act for another")
        self._name = name
        self._binding = f"{channel},{acting},".encode()
        nonce = fields["r"] + secrets.token_urlsafe(24)
        # librdkafka below 2.6.1 writes its own part twice.
        self._nonces = nonce, fields["r"] + nonce
        salt = base64.b64encode(self._users.salt(name)).decode()
        answer = f"r={nonce},s={salt},i={_ITERATIONS}"
        self._messages = f"{bare},{answer}"
        return answer.encode()

    def _final(self, text: str, name: str) -> bytes:
        without, _, proof = text.rpartition(",p=")
        fields = _fields(without)
        if fields.get("r") not in self._nonces or _decoded(fields.get("c", "")) != self._binding:
            raise LoginRefused("the last bytes do not belong to the first ones")
        signed = f"{self._messages},{without}".encode()
        salted = hashlib.pbkdf2_hmac(
            self._hash, self._users.password(name), self._users.salt(name), _ITERATIONS
        )
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        stored = hashlib.new(self._hash, client_key).digest()
        signature = hmac.digest(stored, signed, self._hash)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        if not hmac.compare_digest(_decoded(proof), expected) or not self._users.knows(name):
            _refuse(name)
        self.user = name
        server_key = hmac.digest(salted, b"Server Key", self._hash)
        return b"v=" + base64.b64encode(hmac.digest(server_key, signed, self._hash))


def _refuse(name: str) -> NoReturn:
    raise LoginRefused(f"wrong name or password: {_shown(name)}")


def _shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN_NAME else name[:_SHOWN_NAME] + "…")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LoginRefused("the bytes are not UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    """Return the values of `a=value,b=value` by letter."""
    pairs = (each.partition("=") for each in text.split(","))
    return {letter: value for letter, equals, value in pairs if equals}


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginRefused("a field is not base64") from None
