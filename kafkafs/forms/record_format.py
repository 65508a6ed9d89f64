"""Text of a record by a format string, as `kcat -f` has it (kcat 1.7.1, `format.c`), with more tokens and forms of rpk's."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from engine import kernel
from engine.record.record import Header
from engine.units import TopicPartition

Piece: TypeAlias = "bytes | str"
"""Bytes that the text of each record has, or the letter of a token."""

TOKENS = "sSRkKtpoTh"
"""Those of kcat."""
RPKS_TOKENS = "vVdHexy"
_TEXTS = "svk"
_NUMBERS = {"S": "value_size", "V": "value_size", "K": "key_size", "o": "offset", "T": "timestamp", "d": "timestamp", "H": "headers_count"}  # fmt: skip
_OF_BATCH = {"e": "leader_epoch", "x": "producer_id", "y": "producer_epoch"}
_PIECE = re.compile(
    rb"%(?P<token>[svk]\{(?:hex|base64(?:raw)?)\}"
    rb"|[SVKpodTHexy]\{(?:ascii|hex(?:64|32|16|8|4)?|(?:big|little)(?:64|32|16|8))\}"
    rb"|.?)|[^%]+",
    re.DOTALL,
)
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
    is empty, and its size is -1. With a meaning that only rpk gives them: `%v` value, `%V` its size, `%d` timestamp, `%H`
    number of headers, `%e` leader epoch, `%x` producer id, `%y` producer epoch.

    Forms, as rpk has them: `{hex}`, `{base64}` and `{base64raw}`, without padding, after a key or value; after a number
    `{hex}`, `{hex64}` and others of 4 bits for each digit, `{big32}` and `{little32}` bytes, `{ascii}`. Other braces are
    text, as in kcat.

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

        >>> RecordFormat.parse(rb"%o:\t%k{hex}\x0a").pieces
        ('o', b':\t', 'k{hex}', b'\n')
        """
        return cls(tuple(_piece(match) for match in _PIECE.finditer(text)))

    def text(
        self,
        columns: kernel.Columns,
        index: int,
        partition: TopicPartition,
        batches: Any,  # noqa: ANN401 - a table
    ) -> list[bytes]:
        """Return the text of a record, in pieces.

        Args:
            columns: decoded records.
            index: the record among them.
            partition: topic and partition.
            batches: the batches that they are of.
        """
        batch = batches[columns.row[index]]
        return [
            piece if isinstance(piece, bytes) else _field(piece, columns, index, partition, batch)
            for piece in self.pieces
        ]


def _piece(match: re.Match[bytes]) -> Piece:
    token = match["token"]
    if token is None:
        return _ESCAPE.sub(_byte, match[0])
    if token == b"%":
        return token
    if not token:
        raise FormatError("a token is missing after %; write %% for a percent sign")
    if token[0] > 0x7F or chr(token[0]) not in TOKENS + RPKS_TOKENS:
        known = " ".join(f"%{each}" for each in TOKENS + RPKS_TOKENS)
        raise FormatError(f"%{token.decode('ascii', 'replace')} is none of {known} %%")
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


def _field(
    token: str,
    columns: kernel.Columns,
    index: int,
    partition: TopicPartition,
    batch: Any,  # noqa: ANN401 - a row
) -> bytes:
    """Return what a token stands for."""
    letter, form = token[0], token[2:-1]
    if letter in _TEXTS:
        text = (columns.key(index) if letter == "k" else columns.value(index)) or b""
        return _text_in(text, form)
    if letter == "R":
        return int(columns.table["value_size"][index]).to_bytes(4, "big", signed=True)
    if letter == "t":
        return partition.topic.encode("utf-8", "surrogateescape")
    if letter == "h":
        is_empty = columns.table["headers_count"][index] <= 0
        return b"" if is_empty else _headers(columns.headers(index))
    if letter == "p":
        return _number_in(partition.partition, form)
    if letter in _OF_BATCH:
        return _number_in(int(batch[_OF_BATCH[letter]]), form)
    return _number_in(int(columns.table[_NUMBERS[letter]][index]), form)


def _text_in(text: bytes, form: str) -> bytes:
    if form == "hex":
        return text.hex().encode()
    if form:
        encoded = base64.b64encode(text)
        return encoded.rstrip(b"=") if form == "base64raw" else encoded
    return text


def _number_in(number: int, form: str) -> bytes:
    """Return a number in one of rpk's forms; of one that is too large, its last bits."""
    name, bits = form.rstrip("0123456789"), int(form[len(form.rstrip("0123456789")) :] or 0)
    if name in ("big", "little"):
        order: Literal["big", "little"] = "big" if name == "big" else "little"
        return (number & ((1 << bits) - 1)).to_bytes(bits // 8, order)
    if name != "hex":
        return b"%d" % number
    if not bits:
        return b"%x" % number
    return f"{number & ((1 << bits) - 1):0{bits // 4}x}".encode()


def _headers(headers: Sequence[Header]) -> bytes:
    """Return the headers as `name=value`, comma-separated; a null value is NULL. C's strings end before a byte 0."""
    return b",".join(
        _to_zero(header.key) + b"=" + (b"NULL" if header.value is None else _to_zero(header.value))
        for header in headers
    )


def _to_zero(text: bytes) -> bytes:
    return text.partition(b"\0")[0]
