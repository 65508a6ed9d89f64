"""Files of a log dir that lie encoded in the objects of a tiered copy.

A chunk of a `.log` object is a zstd frame, a box of AES-256-GCM (12 bytes of IV, ciphertext, 16 of tag), or a frame in
a box. Reads decode the chunks that they touch and keep some. A chunk that cannot be decoded is a stretch of the file
that cannot be read: what else the file has is served. No descriptor leads to the decoded bytes, so nothing can take a
hole for data.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from engine.budgets import DEFAULT_BUDGETS, MiB
from engine.coding import zstd_frame
from engine.errors import KafkaStorageError, UnreadableError
from engine.files.source_files import SourceFile, StatedEnd
from engine.files.unreadable import Stretch, Stretches
from engine.log.tiered.chunk_index import StoredChunk
from engine.log.tiered.data_keys import DataKeyError, cipher_of
from engine.log.tiered.manifest import Encryption, SegmentManifest
from engine.log.tiered.memory_file import memory_file
from engine.units import Position

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

IV, TAG = 12, 16
_KEPT = 128 * MiB
_Known = tuple[int, int, int, int, int]
_STATUS_NAMES = [name for name in dir(os.stat_result) if name.startswith("st_")]


class StoredObject(Protocol):
    """The bytes of an object, wherever it is stored."""

    path: str

    def read_at(self, position: int, size: int) -> bytes:
        """Return bytes from a position, fewer at the end. Raises OSError."""

    def size(self) -> int:
        """Return the number of bytes."""

    def close(self) -> None:
        """Give it up."""


class ChunkError(KafkaStorageError):
    """Bytes that are not the chunk that the manifest states; the message has what was expected and found."""


class _KeptChunks:
    """The chunks that were decoded last, of all files, within a bound of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._chunks: OrderedDict[_Known, bytes] = OrderedDict()
        self._size = 0

    def get(self, known: _Known) -> bytes | None:
        with self._lock:
            found = self._chunks.get(known)
            if found is not None:
                self._chunks.move_to_end(known)
            return found

    def keep(self, known: _Known, data: bytes) -> None:
        with self._lock:
            self._size += len(data) - len(self._chunks.pop(known, b""))
            self._chunks[known] = data
            while self._size > self._most and len(self._chunks) > 1:
                self._size -= len(self._chunks.popitem(last=False)[1])


_kept = _KeptChunks(_KEPT)


def decoded_status(
    status: os.stat_result, manifest: SegmentManifest, suffix: str
) -> os.stat_result:
    """Return the status of a file of a copy, by that of the object that has it."""
    section = manifest.sections.get(suffix)
    if section is None:
        return with_size(status, manifest.chunks.file_size)
    inode = status.st_ino + (1 + section.position << 64 - 24) & (1 << 63) - 1
    return with_size(status, section.size, inode)


def with_size(status: os.stat_result, size: int, inode: int | None = None) -> os.stat_result:
    """Return a status with another size and, if given, inode."""
    fields = list(status)
    named = {name: getattr(status, name) for name in _STATUS_NAMES} | {"st_size": size}
    fields[6] = size
    if inode is not None:
        fields[1] = named["st_ino"] = inode
    return os.stat_result(fields, named)


def opened_part(
    stored: StoredObject,
    status: os.stat_result,
    manifest: SegmentManifest,
    suffix: str,
    end: Position,
) -> SourceFile:
    """Return a file of a copy, up to a position. Raises OSError.

    Args:
        stored: the object that has it; the file closes it.
        status: see `decoded_status`.
        manifest: the copy's manifest.
        suffix: that of the file.
        end: a position at which it shall end, if it is longer.
    """
    if suffix not in manifest.sections:
        return DecodedFile(stored, with_size(status, min(end, status.st_size)), manifest)
    try:
        data = _section(stored, manifest, suffix)[:end]
    finally:
        stored.close()
    return memory_file(data, stored.path, with_size(status, len(data)))


def _section(stored: StoredObject, manifest: SegmentManifest, suffix: str) -> bytes:
    """Return a file of an `.indexes` object."""
    position, size = manifest.sections[suffix]
    try:
        if size > DEFAULT_BUDGETS.checkpoint_bytes:
            raise ChunkError(f"it has {size} bytes, more than {DEFAULT_BUDGETS.checkpoint_bytes}")
        data = stored.read_at(position, size)
        if len(data) != size:
            raise ChunkError(f"it is cut: expected {size} bytes, found {len(data)}")
        if manifest.encryption is None:
            return data
        return _opened(data, cipher_of(manifest.encryption), manifest.encryption)
    except DataKeyError as error:
        raise UnreadableError(errno.ENOKEY, stored.path, position, size, str(error)) from None
    except ChunkError as error:
        cause = f"the {suffix} at byte {position} is damaged: {error}"
        raise UnreadableError(errno.EPROTO, stored.path, position, size, cause) from None


def _opened(box: bytes, cipher: AESGCM, encryption: Encryption) -> bytes:
    """Return what is in a box of AES-GCM. Raises ChunkError."""
    from cryptography.exceptions import InvalidTag

    if len(box) < IV + TAG:
        raise ChunkError(f"expected at least {IV + TAG} bytes, found {len(box)}")
    try:
        return cipher.decrypt(box[:IV], box[IV:], encryption.aad)
    except InvalidTag:
        found, expected = box[-TAG:].hex(), _tag_of(box, cipher, encryption).hex()
        raise ChunkError(f"its tag is wrong: expected {expected}, found {found}") from None


def _tag_of(box: bytes, cipher: AESGCM, encryption: Encryption) -> bytes:
    """Return the tag that the ciphertext in a box should have."""
    iv, data = box[:IV], box[IV:-TAG]
    size = len(data)
    # Encrypted zeros are what the bytes are combined with.
    stream = cipher.encrypt(iv, bytes(size), None)[:size]
    plain = int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")
    return cipher.encrypt(iv, plain.to_bytes(size, "big"), encryption.aad)[-TAG:]


def _inflated(frame: bytes, size: int) -> bytes:
    """Return the content of a zstd frame of a known size. Raises ChunkError."""
    out = bytearray()
    try:
        zstd_frame.decompress(frame, out, size)
    except zstd_frame.ZstdFrameError as error:
        raise ChunkError(str(error)) from None
    except OverflowError:
        raise ChunkError(f"expected {size} bytes in its frame, found more") from None
    return bytes(out)


class DecodedFile(SourceFile):
    """The records file of a segment, decoded from its object chunk by chunk; it has no descriptor.

    Args:
        stored: the object; closed with the file.
        status: status of the segment's file.
        manifest: the copy's manifest.
    """

    __slots__ = ("_cipher", "_lock", "_manifest", "_stored")

    def __init__(
        self, stored: StoredObject, status: os.stat_result, manifest: SegmentManifest
    ) -> None:
        super().__init__(-1, stored.path, status)
        self._stored = stored
        self._manifest = manifest
        self._lock = Lock()
        self._cipher: AESGCM | None = None
        self.unreadable = Stretches()
        if manifest.encryption is not None:
            try:
                self._cipher = cipher_of(manifest.encryption)
            except DataKeyError as error:
                self.unreadable.add(Stretch(0, status.st_size, errno.ENOKEY, str(error)))

    @property
    def stated_end(self) -> StatedEnd | None:  # type: ignore[override]
        """What the manifest states, of a segment whose key is missing."""
        if self._cipher is not None or self._manifest.encryption is None:
            return None
        return StatedEnd(self._manifest.end_offset + 1, self._manifest.max_timestamp)

    def close(self) -> None:
        stored = getattr(self, "_stored", None)
        if stored is not None:
            stored.close()

    def stat(self) -> os.stat_result:
        """Return the status of the segment's file when it was opened."""
        return self.opened_as

    def size(self) -> int:
        """Return the length of the segment's file."""
        return self.opened_as.st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Return bytes of the segment, fewer only at its end. Raises UnreadableError, OSError."""
        if position < 0 or size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.path)
        end = min(position + size, self.size())
        self._refuse_unreadable(position, end - position)
        chunk_size = self._manifest.chunks.chunk_size
        parts = []
        while position < end:
            number, skipped = divmod(position, chunk_size)
            data = self._chunk(number)
            parts.append(data[skipped : skipped + end - position])
            position += len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill a buffer, less at the end of the segment. Raises as `read_at` does."""
        view = memoryview(buffer).cast("B")
        data = self.read_at(position, len(view))
        view[: len(data)] = data
        return len(data)

    def _chunk(self, number: int) -> bytes:
        status = self.opened_as
        known = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, number)
        data = _kept.get(known)
        if data is None:
            with self._lock:
                data = _kept.get(known)
                if data is None:
                    data = self._decoded(self._manifest.chunks.chunk(number))
                    _kept.keep(known, data)
        return data

    def _decoded(self, chunk: StoredChunk) -> bytes:
        """Return the bytes of a chunk; add those of a damaged one to the unreadable stretches."""
        try:
            if chunk.size > DEFAULT_BUDGETS.batch_bytes:
                raise ChunkError(f"it has {chunk.size} bytes, the budget is smaller")
            data = self._stored.read_at(chunk.position, chunk.length)
            if len(data) != chunk.length:
                raise ChunkError(f"it is cut: expected {chunk.length} bytes, found {len(data)}")
            if self._manifest.encryption is not None:
                assert self._cipher is not None
                data = _opened(data, self._cipher, self._manifest.encryption)
            if self._manifest.is_compressed:
                data = _inflated(data, chunk.size)
            if len(data) != chunk.size:
                raise ChunkError(f"expected {chunk.size} bytes in it, found {len(data)}")
            return data
        except ChunkError as error:
            cause = (
                f"chunk {chunk.number}, {chunk.length} bytes at byte {chunk.position} of the object,"
                f" is damaged: {error}"
            )
            assert self.unreadable is not None
            self.unreadable.add(Stretch(chunk.start, chunk.size, errno.EPROTO, cause))
            self._refuse_unreadable(chunk.start, chunk.size)
            raise
