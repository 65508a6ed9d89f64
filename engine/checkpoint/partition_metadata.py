"""partition.metadata of a partition: its topic id, in the two lines "version: 0" and "topic_id: ...".

See PartitionMetadataFile in Kafka. Written since 2.8.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.checkpoint.base64_uuid import ZERO_UUID, canonical_uuid
from engine.checkpoint.checkpoint_file import text_lines
from engine.checkpoint.decimal_text import parse_int32
from engine.errors import CorruptCheckpointError

CURRENT_VERSION = 0


class PartitionMetadata(NamedTuple):
    """The file's version and the topic id in base64."""

    version: int
    topic_id: str


def parse_partition_metadata(data: bytes, *, path: str | None = None) -> PartitionMetadata:
    """Return the topic id of a partition.

    Later versions must begin with the same two lines. Raises CorruptCheckpointError, also for the zero id.
    """
    lines = text_lines(data, path=path)
    version = _number(_value(lines, 1, "version", path), path)
    if version < 0:
        raise CorruptCheckpointError("the version is unknown", line=1, path=path, found=version)
    text = _value(lines, 2, "topic_id", path)
    try:
        topic_id = canonical_uuid(text)
    except ValueError as error:
        raise CorruptCheckpointError(str(error), line=2, path=path) from None
    if topic_id == ZERO_UUID:
        raise CorruptCheckpointError("the topic id is that of no topic", line=2, path=path)
    return PartitionMetadata(version, topic_id)


def render_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Return the file's bytes.

    >>> render_partition_metadata(PartitionMetadata(0, "sgf5MsZgRTuEMv68ZXKJbQ"))
    b'version: 0\\ntopic_id: sgf5MsZgRTuEMv68ZXKJbQ'
    """
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def _value(lines: Iterator[str], line: int, name: str, path: str | None) -> str:
    text = next(lines, None)
    key, colon, value = (text or "").partition(":")
    if key != name or not colon or not value[:1].isspace() or not value.strip():
        raise CorruptCheckpointError(
            f"there is no {name}",
            line=line,
            path=path,
            found="the end" if text is None else ascii(text[:80]),
        )
    return value.strip()


def _number(text: str, path: str | None) -> int:
    try:
        return parse_int32(text)
    except ValueError as error:
        raise CorruptCheckpointError(str(error), line=1, path=path) from None
