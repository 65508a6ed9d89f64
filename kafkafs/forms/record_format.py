"""Text of a record by a format string, as `kcat -f` has it (kcat 1.7.1, `format.c`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from engine import kernel
from engine.record.record import Header
from engine.units import TopicPartition

Piece: TypeAlias = "bytes | str"
"""Bytes that the text of each record has, or the letter of a token."""

TOKENS = "sSRkKtpoTh"
_PIECE = re.compile(rb"%(.?)|[^%]+", re.DOTALL)
_ESCAPE = re.compile(
    rb"\\(?:(?P<space>[nrt])"
    rb"|x(?=[0-9])(?P<hex>0[xX][0-9a-fA-F]+|[0-9a-fA-F]+)"
    rb"|(?P<number>0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)"
    rb"|(?P<cut>x\Z)|x?(?P<plain>.))",
    re.DOTALL,
)
_SPACES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_MOST_NUMBER = 2**64 - 1
"""What C's strtoul returns for all larger numbers."""


class FormatError(Exception):
    """A text is no format of records."""


class RecordFormat(NamedTuple):
    r"""A format of records.

    Tokens: `%s` value, `%k` key, `%S` and `%K` their sizes, `%R` the value's size as 4 bytes, `%t` topic, `%p` partition,
    `%o` offset, `%T` timestamp in milliseconds, `%h` headers as `name=value,…`, `%%` a percent sign. A null key or value
    is empty, and its size is -1.

    Escapes: `\n`, `\r`, `\t`, `\xNN`, and `\NNN`, a number as in C: octal with a leading 0, else decimal. As in kcat,
    `\x` needs a first digit of 0 to 9, a number goes on as long as there are digits, and its last 8 bits are the byte.
    kcat drops what follows a byte 0 up to the next token; here it stays.
    """

    pieces: tuple[Piece, ...]

    @classmethod
    def parse(cls, text: bytes) -> RecordFormat:
        r"""Return the format of a text.

        Raises:
            FormatError: it has an unknown token, or an escape without an end.

        >>> RecordFormat.parse(rb"%o:\t%k\x0a").pieces
        ('o', b':\t', 'k', b'\n')
        """
        return cls(tuple(_piece(match) for match in _PIECE.finditer(text)))

    def text(self, columns: kernel.Columns, index: int, partition: TopicPartition) -> list[bytes]:
        """Return the text of a record, in pieces."""
        return [
            piece if isinstance(piece, bytes) else _field(piece, columns, index, partition)
            for piece in self.pieces
        ]


def _piece(match: re.Match[bytes]) -> Piece:
    token = match[1]
    if token is None:
        return _ESCAPE.sub(_byte, match[0])
    if token == b"%":
        return token
    if not token:
        raise FormatError("a token is missing after %; write %% for a percent sign")
    if token[0] > 0x7F or token.decode() not in TOKENS:
        hint = "; %s is the value" if token == b"v" else ""
        known = " ".join(f"%{each}" for each in TOKENS)
        raise FormatError(f"%{token.decode('ascii', 'replace')} is none of {known} %%{hint}")
    return token.decode()


def _byte(escape: re.Match[bytes]) -> bytes:
    if escape["cut"]:
        raise FormatError(r"digits are missing after \x")
    if escape["space"]:
        return _SPACES[escape["space"]]
    if escape["plain"] is not None:
        return escape["plain"]
    if escape["hex"]:
        number = int(escape["hex"], 16)
    else:
        digits = escape["number"]
        base = 16 if digits[1:2] in (b"x", b"X") else 8 if digits[0] == ord("0") else 10
        number = int(digits, base)
    return bytes([min(number, _MOST_NUMBER) & 0xFF])


def _field(token: str, columns: kernel.Columns, index: int, partition: TopicPartition) -> bytes:
    """Return what a token stands for."""
    table = columns.table
    if token in "sk":
        return (columns.value(index) if token == "s" else columns.key(index)) or b""
    if token == "R":
        return int(table["value_size"][index]).to_bytes(4, "big", signed=True)
    if token == "t":
        return partition.topic.encode("utf-8", "surrogateescape")
    if token == "p":
        return b"%d" % partition.partition
    if token == "h":
        return _headers(columns.headers(index)) if table["headers_count"][index] > 0 else b""
    name = {"S": "value_size", "K": "key_size", "o": "offset", "T": "timestamp"}[token]
    return b"%d" % table[name][index]


def _headers(headers: Sequence[Header]) -> bytes:
    """Return the headers as `name=value`, comma-separated; a null value is NULL. C's strings end before a byte 0."""
    return b",".join(
        _to_zero(header.key) + b"=" + (b"NULL" if header.value is None else _to_zero(header.value))
        for header in headers
    )


def _to_zero(text: bytes) -> bytes:
    return text.partition(b"\0")[0]
