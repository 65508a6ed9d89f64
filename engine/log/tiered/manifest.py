"""The manifest of a copy by Aiven's plugin: what the segment holds, and how its objects are made.

A JSON object, written last: without one the copy was not finished. Source: `SegmentManifestV1` of
github.com/Aiven-Open/tiered-storage-for-apache-kafka.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeVar

from engine.errors import CorruptCheckpointError
from engine.log.tiered.chunk_index import ChunkIndex, SizesError, fixed_chunks, variable_chunks
from engine.units import MAX_INT64, EpochEntry, Offset, Timestamp, TopicPartition

MANIFEST, INDEXES = ".rsm-manifest", ".indexes"
SECTIONS = {
    "offset": ".index",
    "timestamp": ".timeindex",
    "producerSnapshot": ".snapshot",
    "leaderEpoch": ".leader_epoch_checkpoint",
    "transaction": ".txnindex",
}
"""Suffixes that LocalTieredStorage has for the parts of an `.indexes` object, by the manifest's names."""
_MOST_INT32 = (1 << 31) - 1
Value = TypeVar("Value")


class Section(NamedTuple):
    """A file in an `.indexes` object: its bytes there, one encrypted chunk if the copy is encrypted."""

    position: int
    size: int


class Encryption(NamedTuple):
    """The data key of a copy, wrapped by the RSA pair `key_id`; the data that every tag covers too."""

    key_id: str
    wrapped: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class SegmentManifest:
    """A manifest.

    Attributes:
        chunks: the chunks of the `.log` object.
        sections: files in the `.indexes` object that are there and not empty, by suffix.
        is_compressed: whether each chunk of the `.log` is a zstd frame.
        encryption: how all chunks are encrypted; None for plain ones.
        partition, topic_id: whose segment it is.
        start_offset, end_offset: first and last offset of the segment.
        max_timestamp: largest timestamp, in milliseconds.
        epochs: starts of its leader epochs, ascending.
    """

    chunks: ChunkIndex
    sections: Mapping[str, Section]
    is_compressed: bool
    encryption: Encryption | None
    partition: TopicPartition
    topic_id: str
    start_offset: Offset
    end_offset: Offset
    max_timestamp: Timestamp
    epochs: tuple[EpochEntry, ...]

    @property
    def is_encoded(self) -> bool:
        """Whether the `.log` object differs from the segment's file."""
        return self.is_compressed or self.encryption is not None


def parse_manifest(data: bytes, *, path: str) -> SegmentManifest:
    """Return the manifest. Raises CorruptCheckpointError with the field, or the byte that is no JSON."""
    try:
        found = json.loads(data)
    except UnicodeDecodeError as error:
        _refuse(path, "the manifest is not JSON", position=error.start)
    except json.JSONDecodeError as error:
        position = len(error.doc[: error.pos].encode())
        _refuse(path, f"the manifest is not JSON: {error.msg}", position=position)
    except (ValueError, RecursionError):
        _refuse(path, "the manifest is not JSON", position=0)
    if not isinstance(found, dict):
        _refuse(path, "the manifest is not a JSON object", position=0)
    return _Fields(found, path).manifest()


def _refuse(path: str, reason: str, **facts: Any) -> NoReturn:  # noqa: ANN401
    raise CorruptCheckpointError(reason, path=path, **facts)


class _Fields:
    """The fields of a JSON object of a manifest; `name` is its place in that."""

    def __init__(self, fields: dict[str, Any], path: str, name: str = "") -> None:
        self._fields, self._path, self._name = fields, path, name

    def value(self, name: str, kind: type[Value]) -> Value:
        found = self._fields.get(name)
        if type(found) is not kind:
            text = "none" if found is None else repr(found)[:60]
            self.refuse(name, kind.__name__, text)
        return found

    def number(self, name: str, most: int = MAX_INT64, least: int = 0) -> int:
        found = self.value(name, int)
        if not least <= found <= most:
            self.refuse(name, f"{least} to {most}", found)
        return found

    def within(self, name: str) -> _Fields:
        return _Fields(self.value(name, dict), self._path, f"{self._name}{name}.")

    def base64(self, name: str, text: str | None = None) -> bytes:
        text = self.value(name, str) if text is None else text
        try:
            return b64decode(text, validate=True)
        except ValueError:
            self.refuse(name, "base64", text[:60])

    def refuse(self, name: str, expected: object, found: object) -> NoReturn:
        reason = f"{self._name}{name} of the manifest is wrong"
        _refuse(self._path, reason, expected=expected, found=found)

    def manifest(self) -> SegmentManifest:
        if (version := self.value("version", str)) != "1":
            self.refuse("version", "1", version)
        facts = self.within("remoteLogSegmentMetadata")
        topic = facts.within("remoteLogSegmentId").within("topicIdPartition")
        partition = topic.within("topicPartition")
        start = facts.number("startOffset")
        return SegmentManifest(
            self.within("chunkIndex").chunks(),
            self.within("segmentIndexes").sections(),
            self.value("compression", bool),
            self.within("encryption").encryption() if self._fields.get("encryption") else None,
            TopicPartition(partition.value("topic", str), partition.number("partition")),
            topic.value("topicId", str),
            start,
            facts.number("endOffset", MAX_INT64 - 1, start),
            facts.number("maxTimestampMs", least=-1),
            facts.epochs(),
        )

    def chunks(self) -> ChunkIndex:
        kind = self.value("type", str)
        chunk = self.number("originalChunkSize", _MOST_INT32, 1)
        size = self.number("originalFileSize", _MOST_INT32)
        if kind not in {"fixed", "variable"}:
            self.refuse("type", "fixed or variable", kind)
        try:
            if kind == "variable":
                return variable_chunks(chunk, size, self.base64("transformedChunks"))
            stored = self.number("transformedChunkSize", _MOST_INT32, 1)
            last = self.number("finalTransformedChunkSize", _MOST_INT32, 1)
            return fixed_chunks(chunk, size, stored, last)
        except SizesError as error:
            self.refuse("transformedChunks", error.expected, error.found)

    def sections(self) -> dict[str, Section]:
        found = {}
        for name, suffix in SECTIONS.items():
            if self._fields.get(name) is not None:
                part = self.within(name)
                found[suffix] = Section(part.number("position"), part.number("size"))
        return {suffix: section for suffix, section in found.items() if section.size}

    def encryption(self) -> Encryption:
        key_id, _, wrapped = self.value("dataKey", str).partition(":")
        return Encryption(key_id, self.base64("dataKey", wrapped), self.base64("aad"))

    def epochs(self) -> tuple[EpochEntry, ...]:
        entries = self.value("segmentLeaderEpochs", dict)
        try:
            found = sorted(EpochEntry(int(epoch), int(start)) for epoch, start in entries.items())
        except (TypeError, ValueError, OverflowError):
            found = []
        if not found:
            self.refuse("segmentLeaderEpochs", "leader epochs and their offsets", str(entries)[:60])
        return tuple(found)
