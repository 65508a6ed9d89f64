"""Copies of segments as Kafka's LocalTieredStorage, or Aiven's plugin, lays them out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import uuid
from base64 import b64encode, urlsafe_b64encode
from hashlib import sha3_512
from itertools import islice
from pathlib import Path
from typing import Any

import zstandard
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from engine.checkpoint.leader_epoch_checkpoint import render
from engine.files.file_names import parse_folder_name
from engine.log.log_directory import open_source
from engine.units import EpochEntry

TOPIC_ID = "sgf5MsZgRTuEMv68ZXKJbQ"
_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
_NO_PRODUCERS = b"\x00\x01" + struct.pack(">I", 0x48674BC7) + bytes(4)


def segment_id(number: int) -> str:
    """A segment's id; those of larger numbers sort later."""
    return urlsafe_b64encode(uuid.UUID(int=number).bytes).decode().rstrip("=")


class TieredWriter:
    """Copies segments out of partition folders into one tiered partition folder."""

    def __init__(self, root: Path, name: str = "orders-0", topic_id: str = TOPIC_ID) -> None:
        self.root = root
        self.topic_id = topic_id
        self.folder = root / f"{name}-{topic_id}"
        self.folder.mkdir(parents=True)
        self._copied = 0

    def copy(
        self, partition: Path, base_offset: int, *, epochs: list[tuple[int, int]] | None = None
    ) -> Path:
        """One segment with all that Kafka copies with it; its records file."""
        self._copied += 1
        stem = f"{base_offset:020}-{segment_id(self._copied)}"
        for suffix in _SUFFIXES:
            file = partition / f"{base_offset:020}{suffix}"
            if file.exists():
                shutil.copyfile(file, self.folder / f"{stem}{suffix}")
        end = _end_of(partition, base_offset)
        snapshot = partition / f"{end:020}.snapshot"
        data = snapshot.read_bytes() if snapshot.exists() else _NO_PRODUCERS
        (self.folder / f"{stem}.snapshot").write_bytes(data)
        entries = [EpochEntry(*entry) for entry in epochs or [(0, 0)]]
        (self.folder / f"{stem}.leader_epoch_checkpoint").write_bytes(render(entries))
        return self.folder / f"{stem}.log"

    def copy_all(self, partition: Path) -> list[Path]:
        """All segments of a partition's folder."""
        logs = sorted(partition.glob("*.log"))
        return [self.copy(partition, int(log.stem)) for log in logs]


KEYS = Path(__file__).parent / "data" / "aiven" / "keys"
_SECTIONS = {
    "offset": ".index",
    "timestamp": ".timeindex",
    "producerSnapshot": ".snapshot",
    "leaderEpoch": "",
    "transaction": ".txnindex",
}


def aiven_manifest(
    size: int,
    last: object,
    base_offset: int = 0,
    epochs: object = None,
    *,
    chunk_size: int = 16 * 1024,
    partition: tuple[str, int] = ("orders", 0),
) -> dict[str, Any]:
    """The fields of the manifest of a plain segment without indexes."""
    topic = {"topic": partition[0], "partition": partition[1]}
    return {
        "version": "1",
        "chunkIndex": {
            "type": "fixed",
            "originalChunkSize": chunk_size,
            "originalFileSize": size,
            "transformedChunkSize": chunk_size,
            "finalTransformedChunkSize": (size - 1) % chunk_size + 1,
        },
        "segmentIndexes": dict.fromkeys(_SECTIONS),
        "compression": False,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {"topicId": TOPIC_ID, "topicPartition": topic}
            },
            "startOffset": base_offset,
            "endOffset": last,
            "maxTimestampMs": 0,
            "segmentLeaderEpochs": {"0": base_offset} if epochs is None else epochs,
        },
    }


def aiven_copy(
    root: Path,
    partition: Path,
    base_offset: int,
    *,
    number: int = 1,
    chunk_size: int = 16 * 1024,
    is_compressed: bool = False,
    key_id: str = "",
) -> Path:
    """One segment as Aiven's plugin lays it out, encrypted under a pair of `KEYS` if one is named; its records file."""
    (topic, index), _, _ = parse_folder_name(partition.name)
    folder = root / f"{topic}-{TOPIC_ID}" / str(index)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{base_offset:020}-{segment_id(number)}.log"
    data = (partition / f"{base_offset:020}.log").read_bytes()
    end = _end_of(partition, base_offset)
    facts = aiven_manifest(
        len(data), end - 1, base_offset, chunk_size=chunk_size, partition=(topic, index)
    )
    data_key, aad = hashlib.sha256(log.name.encode()).digest(), os.urandom(32)

    def boxed(plain: bytes) -> bytes:
        iv = os.urandom(12)
        return iv + AESGCM(data_key).encrypt(iv, plain, aad) if key_id else plain

    chunks = [data[start : start + chunk_size] for start in range(0, len(data), chunk_size)]
    if is_compressed:
        chunks = [zstandard.compress(chunk) for chunk in chunks]
    stored = [boxed(chunk) for chunk in chunks]
    log.write_bytes(b"".join(stored))
    index_facts = facts["chunkIndex"]
    if is_compressed:
        index_facts["type"] = "variable"
        index_facts["transformedChunks"] = b64encode(
            zstandard.compress(coded_sizes([*map(len, stored)]))
        ).decode()
    else:
        index_facts["transformedChunkSize"] = len(stored[0])
        index_facts["finalTransformedChunkSize"] = len(stored[-1])
    facts["compression"] = is_compressed
    if key_id:
        wrapped = b64encode(_wrapped(key_id, data_key)).decode()
        facts["encryption"] = {
            "dataKey": f"{key_id}:{wrapped}",
            "aad": b64encode(aad).decode(),
        }
    indexes = b""
    for name, suffix in _SECTIONS.items():
        file = partition / f"{end if suffix == '.snapshot' else base_offset:020}{suffix}"
        part = file.read_bytes() if suffix and file.exists() else b""
        if name == "leaderEpoch":
            part = render([EpochEntry(0, 0)])
        if part:
            part = boxed(part)
            facts["segmentIndexes"][name] = {"position": len(indexes), "size": len(part)}
            indexes += part
    log.with_suffix(".indexes").write_bytes(indexes)
    log.with_suffix(".rsm-manifest").write_text(json.dumps(facts))
    return log


def coded_sizes(sizes: list[int]) -> bytes:
    """Sizes of chunks as the plugin writes them, before zstd."""
    if len(sizes) < 2:
        return struct.pack(f">{1 + len(sizes)}I", len(sizes), *sizes)
    base = min(sizes[:-1])
    width = max(1, -(-max(size - base for size in sizes[:-1]).bit_length() // 8))
    middle = b"".join((size - base).to_bytes(width, "big") for size in sizes[:-1])
    return struct.pack(">IIB", len(sizes), base, width) + middle + struct.pack(">I", sizes[-1])


def _wrapped(key_id: str, data_key: bytes) -> bytes:
    """A data key by RSA-OAEP with SHA3-512."""
    public = load_pem_public_key((KEYS / f"{key_id}.public.pem").read_bytes())
    assert isinstance(public, RSAPublicKey)
    numbers = public.public_numbers()
    length = public.key_size // 8
    empty = sha3_512().digest()
    message = empty + bytes(length - len(data_key) - 130) + b"\1" + data_key
    seed = os.urandom(64)
    masked = _xor(message, _mask(seed, len(message)))
    block = b"\0" + _xor(seed, _mask(masked, 64)) + masked
    return pow(int.from_bytes(block, "big"), numbers.e, numbers.n).to_bytes(length, "big")


def _mask(seed: bytes, size: int) -> bytes:
    parts = (sha3_512(seed + number.to_bytes(4, "big")).digest() for number in range(size))
    return b"".join(islice(parts, size // 64 + 1))[:size]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _end_of(partition: Path, base_offset: int) -> int:
    """One past a segment's last record."""
    view = next(iter(open_source(str(partition)).partitions().values())).view()
    place = view.base_offsets.index(base_offset)
    return [*view.base_offsets[1:], view.log_end_offset][place]
