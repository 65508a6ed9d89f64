"""Values that are an Avro object container file: a header with the schema, and blocks of objects."""

from __future__ import annotations

import zlib

from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.avro_reader import read_long
from kafkafs.schemas.decoders.limits import MOST_BYTES, MOST_COST, check_size
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.schema import JsonValue

_MAGIC_SIZE = 4
_SYNC_SIZE = 16
_MOST_ENTRIES = 1000


def decode_avro_file(data: bytes) -> list[JsonValue]:
    """Return the objects of a container file, with the codec null or deflate.

    Raises:
        UndecodableError: the file is damaged or too large, or has another codec.
    """
    check_size(len(data))
    try:
        entries, at = _header(data)
        decoder = AvroDecoder(entries.get("avro.schema", b"").decode("utf-8", "replace"))
        codec = entries.get("avro.codec", b"null").decode("utf-8", "replace")
        return _objects(data, at, decoder, codec)
    except (IndexError, RecursionError):
        raise UndecodableError("the Avro file is cut off or nested too deeply") from None


def _header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Return the entries of the header, and where its sync marker begins."""
    entries: dict[str, bytes] = {}
    at = _MAGIC_SIZE
    while True:
        count, at = read_long(data, at)
        if count < 0:
            count, (_, at) = -count, read_long(data, at)
        if not count:
            return entries, at
        if count + len(entries) > _MOST_ENTRIES:
            raise UndecodableError(f"the header of the Avro file has {count} entries", at)
        for _ in range(count):
            name, at = _bytes(data, at)
            entries[name.decode("utf-8", "replace")], at = _bytes(data, at)


def _objects(data: bytes, at: int, decoder: AvroDecoder, codec: str) -> list[JsonValue]:
    sync = data[at : at + _SYNC_SIZE]
    at += _SYNC_SIZE
    if at > len(data):
        raise UndecodableError("the header of the Avro file is cut off", len(data))
    found: list[JsonValue] = []
    purse = [MOST_COST]
    while at < len(data):
        count, at = read_long(data, at)
        block, at = _bytes(data, at)
        found += decoder.read_many(_inflated(block, codec), count, purse)
        if data[at : at + _SYNC_SIZE] != sync:
            raise UndecodableError("a block of the Avro file has no sync marker behind it", at)
        at += _SYNC_SIZE
    return found


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = read_long(data, at)
    if not 0 <= size <= len(data) - at:
        raise UndecodableError(f"{size} bytes are stated, {len(data) - at} are left", at)
    return data[at : at + size], at + size


def _inflated(block: bytes, codec: str) -> bytes:
    if codec == "null":
        return block
    if codec != "deflate":
        raise UndecodableError(f"the Avro file has the codec {codec[:40]!r}, not null or deflate")
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = inflating.decompress(block, MOST_BYTES + 1)
    except zlib.error as error:
        raise UndecodableError(f"a block of the Avro file does not inflate: {error}") from None
    check_size(len(found))
    return found
