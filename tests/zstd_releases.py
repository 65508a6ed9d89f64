"""Corrupt zstd frames that libzstd read up to a release and refuses since: Kafka's answer is that of its release.

The kinds are those of doc/decompressor_permissive.md in zstd's repository, the first two frames are its examples. A
batch's checksum tells a flipped bit from what was written; these frames matter if they were corrupt before it was
computed.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.builders import Rec, records_section

KEYS = (b"abcaabbcbccc", b"acaaabacbccc", b"abbabacacaab")
RECORDS = [Rec(None, key, timestamp=1000) for key in KEYS]
SECTION = records_section(RECORDS, 0, 1000)


class CorruptFrame(NamedTuple):
    """A frame with its flaw, what older releases read, and the last of them."""

    flaw: str
    data: bytes
    content: bytes
    last_reader: tuple[int, ...]


FRAMES = [
    CorruptFrame(
        "truncated Huffman states",
        bytes.fromhex("28b52ffd 0000 5500 0072 8001 0420 7e1f 02aa 00"),
        bytes((0, 2, 0, 2, 0, 2, 0)),
        (1, 5, 6),
    ),
    CorruptFrame(
        "an offset of 0",
        bytes.fromhex("28b52ffd 0000 4500 0008 0002 002f 430b ae"),
        bytes(18),
        (1, 5, 5),
    ),
    CorruptFrame(
        "reserved bits that are set",
        bytes.fromhex(
            "28b52ffd20391d0100f2c20609e02d060cd8950bbb7710eb9cfbd2b83a49000a62db7bdd12005401"
            "02"  # 00 in the frame that a writer made
            "db369d"
        ),
        SECTION,
        (1, 5, 5),
    ),
]
