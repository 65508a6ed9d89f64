"""Frames that Kafka's own readers refuse and we read: each has a finding, and no other frame has one."""

from __future__ import annotations

import random
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import cramjam
import pytest

from engine.coding import lz4_frame
from engine.coding.checksums import xxh32
from engine.coding.compression import CompressionType, compress, decompress
from engine.coding.refused_frames import LARGEST_WINDOW, refusal
from engine.errors import KafkaStorageError
from tests.kafka import jars
from tests.kafka.conftest import SEED, why_not

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
SOURCE = Path(__file__).with_name("Frames.java")
CONTENT = b"".join(b"record %d of many, " % (number % 97) for number in range(9000))
LIMIT = 1 << 28


def with_header_hash(frame: bytes) -> bytes:
    """The LZ4 frame with the checksum that its descriptor should have."""
    end = 14 if frame[4] & 8 else 6
    return frame[:end] + bytes([xxh32(frame[4:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def lz4_frames() -> Iterator[bytes]:
    for linked in (False, True):
        for content_hash in (False, True):
            writer = cramjam.lz4.Compressor(3, content_checksum=content_hash, block_linked=linked)
            writer.compress(CONTENT)
            yield bytes(writer.finish())
    good = lz4_frame.compress(CONTENT)
    for flags in range(256):
        yield with_header_hash(good[:4] + bytes([flags]) + good[5:])
    for sizes in range(256):
        yield with_header_hash(good[:5] + bytes([sizes]) + good[6:])
    yield lz4_frame.compress(CONTENT, block_hash=True)
    yield lz4_frame.compress(CONTENT, broken_header_checksum=True)
    yield good + good


def gzip_frames() -> Iterator[bytes]:
    good = compress(CompressionType.GZIP, CONTENT)
    yield good + good
    yield good + b"\x1f\x8b\x08" + bytes(20)
    for flags in range(32):
        head = good[:3] + bytes([flags]) + good[4:10]
        head += b"\x03\x00abc" if flags & 4 else b""
        head += b"name\x00" if flags & 8 else b""
        head += b"comment\x00" if flags & 16 else b""
        for wrong in (0, 1):
            crc = (zlib.crc32(head) & 0xFFFF) ^ wrong
            yield head + (crc.to_bytes(2, "little") if flags & 2 else b"") + good[10:]


def snappy_frames() -> Iterator[bytes]:
    good = compress(CompressionType.SNAPPY, CONTENT)
    yield good + good
    yield bytes(cramjam.snappy.compress_raw(CONTENT))
    for place in range(16):
        for value in (0, 1, 2, 127, 128, 255):
            yield good[:place] + bytes([value]) + good[place + 1 :]


def zstd_frames() -> Iterator[bytes]:
    good = compress(CompressionType.ZSTD, CONTENT)
    yield good + good
    yield b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc" + good
    for descriptor in range(256):
        yield good[:4] + bytes([descriptor]) + good[5:]
    for exponent in range(32):
        yield good[:5] + bytes([exponent << 3]) + good[6:]
    for size in (LARGEST_WINDOW - 1, LARGEST_WINDOW, LARGEST_WINDOW + 1, LARGEST_WINDOW + 1000):
        yield zeros_in_one_segment(size)


def zeros_in_one_segment(size: int) -> bytes:
    """A zstd frame whose window is all of its content: repeated zeros."""
    parts = [bytes.fromhex("28b52ffd"), bytes([0x80 | 0x20]), size.to_bytes(4, "little")]
    while size:
        block = min(size, 128 * 1024)
        size -= block
        parts += [(block << 3 | 1 << 1 | (not size)).to_bytes(3, "little"), b"\x00"]
    return b"".join(parts)


def flipped(frames: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """Frames with some bits of their first bytes changed."""
    for _ in range(600):
        frame = bytearray(rng.choice(frames))
        for _ in range(rng.randint(1, 3)):
            frame[rng.randrange(min(len(frame), 24))] ^= 1 << rng.randrange(8)
        yield bytes(frame)


def ours(codec: CompressionType, frame: bytes) -> str:
    try:
        content = decompress(codec, frame, limit=LIMIT)
    except KafkaStorageError:
        return "refused"
    return f"{len(content)} {zlib.crc32(content)}"


def kafkas(codec: CompressionType, frames: list[bytes]) -> list[str]:
    lines = "".join(f"{int(codec)} {frame.hex()}\n" for frame in frames)
    command = jars.java_command(jars.CURRENT, str(SOURCE))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


FAMILIES = {
    CompressionType.GZIP: gzip_frames,
    CompressionType.SNAPPY: snappy_frames,
    CompressionType.LZ4: lz4_frames,
    CompressionType.ZSTD: zstd_frames,
}


@pytest.mark.parametrize("codec", FAMILIES)
def test_a_frame_that_only_kafka_refuses_has_a_reason_and_no_other_frame_has_one(
    codec: CompressionType,
) -> None:
    frames = list(FAMILIES[codec]())
    frames += flipped([each for each in frames if len(each) < 200_000], random.Random(SEED))
    wrong = []
    for frame, judged in zip(frames, kafkas(codec, frames), strict=True):
        read = ours(codec, frame)
        is_refused = judged == "refused" and read != "refused"
        if is_refused != (bool(refusal(codec, frame)) and read != "refused"):
            wrong.append((frame[:24].hex(), read, judged, refusal(codec, frame)))
    assert not wrong, f"{len(wrong)} of {len(frames)}: {wrong[:8]}"
