"""Hostile batches of every magic and codec: headers, records and compressed bytes changed, each with its checksum right."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from engine.coding.checksums import crc32, crc32c
from engine.coding.compression import CompressionType, compress
from tests import builders
from tests.builders import Producer, Rec
from tests.soak.mutator import LARGEST, changed

HEADER = 61
CHECKED_FROM = 21
NOW = 1_700_000_000_000
BASE = 50
PRODUCER = Producer(id=9, epoch=1, sequence=2**31 - 2)
RECORDS = (
    Rec(b'{"a": [1, 2, {"b": null}], "c": "\\u00e9 \\ud83d\\ude00", "d": -0.5e3}', b"key", NOW),
    Rec(None, None, NOW + 1, headers=[(b"h", b"v"), (b"n", None), (b"", b"\xff\xfe")]),
    Rec(b"plain \x01 text \xc3\xa9", b"\xff", NOW - 5),
    Rec(b"", b"", NOW + 200_000),
    Rec(b"x" * 130, b"k" * 70, -1, headers=[(b"long" * 20, b"v" * 200)]),
    Rec(b"[" * 40 + b"]" * 40, b"\x00\x00\x00\x01", 2**62, offset=BASE + 900),
    Rec("\u202e\u2028\u009b\U000e0041 ✓".encode(), b"\xed\xa0\x80", 0, offset=BASE + 901),
)


class Good(NamedTuple):
    """A batch of magic 2 in its parts: header, records, and their codec."""

    header: bytes
    section: bytes
    codec: CompressionType


def sealed(batch: bytes) -> bytes:
    """A batch of magic 2 with its length and checksum right."""
    if len(batch) < HEADER:
        return batch
    length = struct.pack(">i", len(batch) - 12)
    crc = struct.pack(">I", crc32c(memoryview(batch)[CHECKED_FROM:]))
    return b"".join((batch[:8], length, batch[12:17], crc, batch[CHECKED_FROM:]))


class Batches:
    """Makes files of one to three hostile batches.

    Args:
        magics, codecs: of the batches.
    """

    def __init__(
        self,
        magics: Sequence[int] = (0, 1, 2, 2, 2, 2),
        codecs: Sequence[CompressionType] = tuple(CompressionType),
    ) -> None:
        self._magics = magics
        self._codecs = codecs
        self._good = [
            self._make_good(first, last, codec, kind)
            for first, last in ((0, 1), (0, 3), (1, 4), (2, 7), (0, 7))
            for codec in codecs
            for kind in range(3)
        ]

    @staticmethod
    def _make_good(first: int, last: int, codec: CompressionType, kind: int) -> Good:
        given = RECORDS[first:last]
        made = builders.batch(
            *(given, BASE, codec),
            producer=PRODUCER if kind else builders.NO_PRODUCER,
            transactional=kind > 0,
            control=kind == 2 and last - first == 1,
            section=b"",
        )
        return Good(made, builders.records_section(given, BASE, given[0].timestamp), codec)

    def __call__(self, random: Random) -> bytes:
        count = random.choice((1, 1, 1, 2, 3))
        made = b"".join(self._batch(random) for _ in range(count))
        if random.random() < 0.06:
            made = changed(made, random)
        return made[:LARGEST]

    def _batch(self, random: Random) -> bytes:
        magic = random.choice(self._magics)
        return self._new(random) if magic == 2 else self._old(random, magic)

    def _new(self, random: Random) -> bytes:
        header, section, codec = random.choice(self._good)
        kind = random.random()
        if kind < 0.6:
            section = changed(section, random)
        payload = compress(codec, section)
        if codec and 0.6 <= kind < 0.85:
            payload = changed(payload, random)
        if kind >= 0.85 or random.random() < 0.25:
            header = header[:CHECKED_FROM] + changed(header[CHECKED_FROM:], random)
            header = header[:HEADER].ljust(HEADER, b"\0")
        if random.random() < 0.2:
            base = random.choice((0, 1, BASE, BASE + 1000, 2**31, 2**63 - 2000, 2**63 - 1, -1))
            header = struct.pack(">q", base) + header[8:]
        return sealed(header + payload)

    def _old(self, random: Random, magic: int) -> bytes:
        given = RECORDS[: random.choice((1, 2, 4, 7))]
        codec = random.choice(self._codecs)
        messages = b"".join(
            builders.message(number, rec.key, rec.value, magic=magic)
            for number, rec in enumerate(given)
        )
        if random.random() < 0.6:
            messages = changed(messages, random)
        content = compress(codec, messages, magic=magic)
        if random.random() < 0.15:
            content = changed(content, random)
        if not codec and random.random() < 0.5:
            made = bytearray(messages)
            seal_messages(made)
            return bytes(made)
        attributes = int(codec) | random.choice((0, 0, 0, 8, 0xF0))
        offset = random.choice((BASE, 0, len(given) - 1, 2**63 - 1))
        made = bytearray(
            builders.message(offset, None, content, magic=magic, attributes=attributes)
        )
        if random.random() < 0.3:
            made[17:26] = changed(bytes(made[17:26]), random).ljust(9, b"\0")[:9]
            seal_messages(made)
        return bytes(made)


def seal_messages(made: bytearray) -> None:
    """Put the checksums of messages of magic 0 and 1 right, as far as their lengths lead."""
    at = 0
    while at + 17 <= len(made):
        size = 12 + struct.unpack_from(">i", made, at + 8)[0]
        if size < 17 or at + size > len(made):
            return
        struct.pack_into(">I", made, at + 12, crc32(memoryview(bytes(made[at + 16 : at + size]))))
        at += size
