"""Hostile bytes out of good ones: a few changes at random places, and then, mostly, the checksums put right again.

Without the last step nearly every input would end at its checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random

Repair = Callable[[bytes, Random], bytes]
LARGEST = 16 * 1024
REPAIRED = 0.85
"""Share of inputs whose checksums and lengths are put right."""
EDGE_BYTES = bytes([0, 1, 2, 3, 0x10, 0x20, 0x40, 0x7F, 0x80, 0x81, 0xFE, 0xFF])
EDGE_NUMBERS = (
    0, 1, -1, 2, 127, 128, 255, 256, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**53, 2**62,
    2**63 - 1, -(2**63), 2**63 - 2,
)  # fmt: skip
EDGE_VARINTS = (
    b"\x01", b"\x00", b"\x02", b"\x7f", b"\xfe\x01", b"\xff\x01", b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x10", b"\xff" * 9 + b"\x01", b"\xfe" + b"\xff" * 8 + b"\x01", b"\x80" * 10, b"\xff" * 10,
)  # fmt: skip
EDGE_TEXTS = (
    b"", b"0", b"-0", b"-1", b"+1", b"1e3", b"0x10", b"1_0", b"2147483647", b"2147483648", b"-2147483649",
    b"9223372036854775807", b"9223372036854775808", b" ", b"\t", b"\r", b"\n", b"\n\n", b"\\u0000", b"\\ud800",
    b"\\", b"=", b":", b"#", b'"', b"{", b"}", b"[[", b"null", b"NaN", b"true", b"\xc3\xa9", b"\xff", b"\xed\xa0\x80",
    b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xd9\xa1", b"\x00", b"\x1b[2J",
)  # fmt: skip


def _flip(data: bytearray, at: int, random: Random) -> None:
    data[at] ^= 1 << random.randrange(8)


def _edge(data: bytearray, at: int, random: Random) -> None:
    data[at] = random.choice(EDGE_BYTES)


def _any_byte(data: bytearray, at: int, random: Random) -> None:
    data[at] = random.randrange(256)


def _step(data: bytearray, at: int, random: Random) -> None:
    data[at] = (data[at] + random.choice((-2, -1, 1, 2))) & 0xFF


def _number(data: bytearray, at: int, random: Random) -> None:
    size = random.choice((2, 4, 8))
    number = random.choice(EDGE_NUMBERS) + random.choice((0, 0, 0, -1, 1))
    order = "big" if random.random() < 0.8 else "little"
    made = (number & ((1 << 8 * size) - 1)).to_bytes(size, order)
    end = min(at + size, len(data))
    data[at:end] = made[: end - at]


def _varint(data: bytearray, at: int, random: Random) -> None:
    made = random.choice(EDGE_VARINTS)
    data[at : at + random.choice((0, 1, 1, len(made)))] = made


def _text(data: bytearray, at: int, random: Random) -> None:
    made = random.choice(EDGE_TEXTS)
    data[at : at + random.choice((0, 1, len(made)))] = made


def _cut_out(data: bytearray, at: int, random: Random) -> None:
    del data[at : at + random.choice((1, 1, 2, 3, 4, 8, 30))]


def _cut_off(data: bytearray, at: int, _: Random) -> None:
    del data[at:]


def _insert(data: bytearray, at: int, random: Random) -> None:
    data[at:at] = bytes(random.choices(EDGE_BYTES, k=random.choice((1, 1, 2, 4, 8))))


def _copy(data: bytearray, at: int, random: Random) -> None:
    start = random.randrange(len(data))
    size = random.choice((1, 2, 4, 8, 16, 40))
    data[at : at + size] = data[start : start + size]


def _double(data: bytearray, at: int, random: Random) -> None:
    size = random.choice((1, 4, 8, 24, 61, 200))
    data[at:at] = data[at : at + size]


def _zeros(data: bytearray, at: int, random: Random) -> None:
    size = min(random.choice((1, 4, 8, 16, 64)), len(data) - at)
    data[at : at + size] = bytes(size)


_BINARY = (
    _flip, _flip, _edge, _edge, _any_byte, _step, _number, _number, _varint, _cut_out, _cut_off, _insert, _copy, _double,
    _zeros,
)  # fmt: skip
_TEXT = (_flip, _any_byte, _step, _text, _text, _text, _text, _cut_out, _cut_off, _copy, _double)


def changed(data: bytes, random: Random, *, is_text: bool = False) -> bytes:
    """The bytes after one to some changes."""
    made = bytearray(data)
    kinds = _TEXT if is_text else _BINARY
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4, 6))):
        if not made:
            made += random.choice(EDGE_VARINTS)
        random.choice(kinds)(made, random.randrange(len(made)), random)
    return bytes(made[:LARGEST])


class Mutator:
    """Makes inputs of a format.

    Args:
        good: bytes that are right.
        repair: puts checksums and lengths right.
        is_text: whether the format is text.
    """

    def __init__(
        self, good: Sequence[bytes], repair: Repair | None = None, *, is_text: bool = False
    ) -> None:
        self._good = sorted({data[:LARGEST] for data in good})
        self._repair = repair
        self._is_text = is_text
        assert self._good

    def __call__(self, random: Random) -> bytes:
        data = random.choice(self._good)
        kind = random.random()
        if kind < 0.05:
            other = random.choice(self._good)
            data = (
                data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]
            )
        if kind < 0.98:
            data = changed(data, random, is_text=self._is_text)
        if self._repair is not None and random.random() < REPAIRED:
            data = self._repair(data, random)
        return data[:LARGEST]


def put(data: bytes, at: int, form: str, *values: int) -> bytes:
    """The bytes with packed numbers at a place; as they are when they are too short."""
    size = struct.calcsize(form)
    if at + size > len(data):
        return data
    return data[:at] + struct.pack(form, *values) + data[at + size :]
