"""Chunks of an export: each is written at once, so that finished ones need no repetition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from engine.units import Offset, TopicPartition
from kafkafs.export.ledger import Done, Moved
from kafkafs.table.splits.split import Split

MOST_TOPICS = 16
"""Most topics of a chunk: the records of each are counted by an expression."""


class ExportChunk(NamedTuple):
    """Part of an export that is written at once.

    Attributes:
        splits: splits sorted by partition and offset; none if the partitions have no records.
        ranges: offsets [start, stop) that the chunk covers, by partition.
        size: bytes of the source.
        leftovers: bytes of the files and folders that a broker set aside, by their names.
    """

    splits: tuple[Split, ...]
    ranges: Mapping[TopicPartition, tuple[Offset, Offset]]
    size: int
    leftovers: Mapping[str, int] = MappingProxyType({})

    @property
    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        partitions = {*self.ranges, *(split.partition for split in self.splits)}
        return sorted({partition.topic for partition in partitions})

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """Topic ids of the partitions that have one."""
        return {
            each.partition: each.topic_id
            for each in self.splits
            if each.topic_id is not None and not each.leftover
        }

    def done(
        self,
        number: int,
        records: Mapping[str, int],
        files: Sequence[Moved],
        damaged: int,
        types: Mapping[str, Mapping[str, str]] | None = None,
        misfits: Mapping[str, int] | None = None,
        untimed: Mapping[str, int] | None = None,
    ) -> Done:
        """Return what the ledger has of the chunk once its files are written."""
        return Done(
            number,
            {str(partition): span for partition, span in self.ranges.items()},
            records,
            tuple(files),
            damaged,
            self.size,
            {str(partition): topic_id for partition, topic_id in self.topic_ids.items()},
            {topic: types[topic] for topic in self.topics} if types else {},
            dict(misfits or {}),
            dict(untimed or {}),
            dict(self.leftovers),
        )


def chunked(splits: Sequence[Split], chunk_bytes: int) -> list[ExportChunk]:
    """Return splits in chunks of about `chunk_bytes` bytes.

    Args:
        splits: splits sorted by partition and offset.
        chunk_bytes: bytes of the source in a chunk; a larger split has a chunk of its own.
    """
    chunks: list[ExportChunk] = []
    taken: list[Split] = []
    topics: set[str] = set()
    size = 0
    for split in splits:
        topic = split.partition.topic
        is_full = size + split.size > chunk_bytes or len(topics | {topic}) > MOST_TOPICS
        if taken and is_full:
            chunks.append(_chunk(taken))
            taken, topics, size = [], set(), 0
        taken.append(split)
        topics.add(topic)
        size += split.size
    if taken:
        chunks.append(_chunk(taken))
    return chunks


def chunked_leftovers(
    leftovers: Mapping[str, tuple[Sequence[Split], int]], chunk_bytes: int
) -> list[ExportChunk]:
    """Return the splits of leftovers in chunks, each leftover whole.

    Args:
        leftovers: splits and bytes by name.
        chunk_bytes: bytes of the source in a chunk; a larger leftover has a chunk of its own.
    """
    chunks: list[ExportChunk] = []
    for name, (splits, size) in leftovers.items():
        last = chunks[-1] if chunks else ExportChunk((), {}, 0)
        topics = {*last.topics, *(split.partition.topic for split in splits)}
        fits = last.size + size <= chunk_bytes and len(topics) <= MOST_TOPICS
        if chunks and fits:
            last = chunks.pop()
        else:
            last = ExportChunk((), {}, 0)
        names = {**last.leftovers, name: size}
        chunks.append(ExportChunk((*last.splits, *splits), {}, last.size + size, names))
    return chunks


def _chunk(splits: list[Split]) -> ExportChunk:
    ranges: dict[TopicPartition, tuple[Offset, Offset]] = {}
    for split in splits:
        start, stop = split.wanted
        ranges[split.partition] = ranges.get(split.partition, (start, stop))[0], stop
    return ExportChunk(tuple(splits), ranges, sum(split.size for split in splits))
