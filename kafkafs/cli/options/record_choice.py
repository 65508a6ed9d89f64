"""The choice of records to erase: by a condition, by keys, or by a list of offsets."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

import click
import numpy as np

from engine import kernel
from engine.erase.choice import ChosenRecords
from engine.erase.found_files import FoundFile
from engine.log.partition_choice import NamedPartition, PartitionChoice
from engine.log.segment.scan import BatchRun
from engine.topics.topic_names import KAFKA_TOPICS
from engine.units import Offset, TopicPartition
from kafkafs.decode.searching.search import Chunk, Search
from kafkafs.records.conditions.wanted_keys import WantedKey, wanted_key
from kafkafs.records.conditions.where import Where
from kafkafs.records.visible import Indices
from kafkafs.schemas.sources.known_schemas import KnownSchemas


class ChosenPartitions:
    """The partitions of which records may be chosen; of Kafka's own topics those that are named.

    Args:
        choice: that of --topic and --partition.
    """

    def __init__(self, choice: PartitionChoice) -> None:
        self._choice = choice

    @property
    def undecided(self) -> int:
        """Records of which it could not be said whether they are chosen."""
        return 0

    def takes(self, file: FoundFile) -> bool:
        """Return whether a records file may have chosen records."""
        assert file.log is not None
        partition = file.log.topic_partition
        is_own = partition.topic in KAFKA_TOPICS and not self._choice.topics
        return not is_own and self._choice.takes(NamedPartition.of(partition))


class ChosenByWhere(ChosenPartitions):
    """Records of whose line a condition is true."""

    def __init__(self, choice: PartitionChoice, where: Where, known: KnownSchemas) -> None:
        super().__init__(choice)
        self._where = where
        self._known = known

    @property
    def undecided(self) -> int:
        """Records for which the condition failed."""
        return self._where.failed

    def of(self, file: FoundFile, run: BatchRun) -> Iterator[ChosenRecords]:
        """Yield the chosen records of a run."""
        view, segment = file.shown()
        topic, partition = view.partition
        options = kernel.LineOptions(
            topic,
            partition,
            decode_with=self._known.decoder(topic),
            log_start_offset=view.log_start_offset,
        )
        search = Search(view, None, options, where=self._where, shows_control=False)
        for chunk in search.chunks(segment, run, with_shown=False):
            if isinstance(chunk, Chunk):
                yield ChosenRecords(chunk.run.table, chunk.columns, chunk.hits)


class ChosenByKey(ChosenPartitions):
    """Records with one of some keys, written as the topic's keys are shown."""

    def __init__(
        self, choice: PartitionChoice, keys: Sequence[str], form: str, known: KnownSchemas
    ) -> None:
        super().__init__(choice)
        self._keys = keys
        self._form = form
        self._known = known
        self._by_topic: dict[str, list[WantedKey]] = {}

    def of(self, file: FoundFile, run: BatchRun) -> Iterator[ChosenRecords]:
        """Yield the chosen records of a run."""
        assert file.log is not None
        wanted = self._wanted(file.log.topic_partition.topic)
        for columns in run.columns() if wanted else ():
            every: Indices = np.arange(len(columns))
            parts = [each.among(columns, every[columns.key_size >= 0]) for each in wanted]
            yield ChosenRecords(run.table, columns, np.unique(np.concatenate(parts)))

    def _wanted(self, topic: str) -> list[WantedKey]:
        if topic not in self._by_topic:
            self._by_topic[topic] = found = []
            for key in self._keys:
                try:
                    found.append(wanted_key(key, topic, self._known, self._form))
                except (ValueError, RecursionError):
                    continue  # the topic's keys have a type that the text has not
        return self._by_topic[topic]


class ChosenByOffset(ChosenPartitions):
    """Records at listed offsets."""

    def __init__(
        self, choice: PartitionChoice, offsets: Mapping[TopicPartition, Sequence[Offset]]
    ) -> None:
        super().__init__(choice)
        self._offsets = {name: sorted(each) for name, each in offsets.items()}

    def takes(self, file: FoundFile) -> bool:
        """Return whether a records file may have chosen records."""
        assert file.log is not None
        return file.log.topic_partition in self._offsets and super().takes(file)

    def of(self, file: FoundFile, run: BatchRun) -> Iterator[ChosenRecords]:
        """Yield the chosen records of a run."""
        assert file.log is not None
        wanted = self._offsets[file.log.topic_partition]
        table = run.table
        # A message of magic 0 or 1 may be a wrapper that states its last offset alone.
        first = np.where(table["magic"] < 2, -1, table["base_offset"])
        near = np.array(
            [
                bisect_left(wanted, low) < bisect_right(wanted, high)
                for low, high in zip(first.tolist(), table["last_offset"].tolist(), strict=True)
            ]
        )
        narrowed = run.with_table(table[near])
        for columns in narrowed.columns() if near.any() else ():
            hits = np.flatnonzero(np.isin(columns.offset, wanted))
            yield ChosenRecords(narrowed.table, columns, hits)


def read_offsets(path: str) -> dict[TopicPartition, list[Offset]]:
    """Return the offsets in a file: lines TOPIC-PARTITION:OFFSET, or record lines.

    Raises:
        click.BadParameter: a line is neither, or the file cannot be read.
    """
    found: dict[TopicPartition, list[Offset]] = {}
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    partition, offset = _place(line, f"line {number} of {path}")
                    found.setdefault(partition, []).append(offset)
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror}", param_hint="--records") from None
    if not found:
        raise click.BadParameter(f"{path} has no line", param_hint="--records")
    return found


def _place(line: bytes, name: str) -> tuple[TopicPartition, Offset]:
    try:
        if line.lstrip().startswith(b"{"):
            facts = json.loads(line)
            return TopicPartition(facts["topic"], facts["partition"]), int(facts["offset"])
        folder, _, offset = line.decode().strip().replace(":", " ").rpartition(" ")
        topic, _, partition = folder.strip().rpartition("-")
        if not (topic and offset.isdecimal() and partition.isdecimal()):
            raise ValueError
        return TopicPartition(topic, int(partition)), int(offset)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise click.BadParameter(
            f"{name} is neither TOPIC-PARTITION:OFFSET nor a record line", param_hint="--records"
        ) from None
