"""What Spark's engine does with a streaming source, call by call, with a crash wherever a test wants one.

The order is the one that Spark 4.3 was seen to keep: the start is asked for twice before the first micro-batch, the
end gets into the checkpoint before splits are planned, and a batch that was not committed is planned again.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from kafkafs.spark.data_source import KafkaLogDataSource
from kafkafs.spark.streaming.stream_reader import KafkaLogStreamReader
from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import BuiltLog

Row = dict[str, Any]
EARLIEST = {"startingOffsets": "earliest"}


class Crash(Exception):
    """The driver is killed."""


class Query:
    """A query's checkpoint and sink, which outlive its runs.

    Attributes:
        offsets: the end of each micro-batch, as text.
        committed: how many micro-batches are done.
        sink: rows by micro-batch; a batch that is written again replaces what it had written.
    """

    def __init__(self, path: Path, **options: object) -> None:
        self.options = {"path": str(path)} | {name: str(value) for name, value in options.items()}
        self.offsets: list[str] = []
        self.committed = 0
        self.sink: dict[int, list[Row]] = {}

    @property
    def rows(self) -> list[Row]:
        """All rows, in the order of the micro-batches."""
        return [row for number in sorted(self.sink) for row in self.sink[number]]

    @property
    def seen(self) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of all rows, sorted."""
        return sorted((row["topic"], row["partition"], row["offset"]) for row in self.rows)

    @property
    def ends(self) -> list[Any]:
        """The end of each micro-batch."""
        return [json.loads(each) for each in self.offsets]

    def run(self, *, available_now: bool = False) -> Run:
        """Start the query, with a new source."""
        return Run(self, available_now)


class Run:
    """A query between its start and its end."""

    def __init__(self, query: Query, available_now: bool) -> None:
        self.query = query
        source = KafkaLogDataSource(options=query.options)
        self.schema: StructType = source.schema()
        self.reader = new_reader(source, self.schema)
        # The function that tasks run is made of a reader of its own.
        self.task = pickle.dumps(new_reader(source, self.schema))
        if available_now:
            self.reader.prepareForTriggerAvailableNow()
        self._is_started = False

    def start(self) -> None:
        """What comes before the first trigger: the micro-batch that was not committed is done again."""
        self._is_started = True
        if len(self.query.offsets) > self.query.committed:
            self._run_last(None)

    def trigger(self, crash: str | None = None) -> bool:
        """A trigger; whether it had a micro-batch.

        Args:
            crash: "planned" dies when the end is in the checkpoint, "written" when the sink has the rows.
        """
        if not self._is_started:
            self.start()
        known = self.query.offsets
        start = known[-1] if known else json.dumps(self.reader.initialOffset())
        limit = self.reader.getDefaultReadLimit()
        end = json.dumps(self.reader.latestOffset(json.loads(start), limit))
        if known and end == start:
            return False
        known.append(end)
        self._run_last(crash)
        return True

    def all(self, most: int = 100) -> int:
        """Triggers until there is nothing new; how many had a micro-batch."""
        for count in range(most):
            if not self.trigger():
                return count
        raise AssertionError(f"still something new after {most} micro-batches")

    def _run_last(self, crash: str | None) -> None:
        query, number = self.query, len(self.query.offsets) - 1
        if crash == "planned":
            raise Crash
        start = query.offsets[number - 1] if number else json.dumps(self.reader.initialOffset())
        splits = self.reader.partitions(json.loads(start), json.loads(query.offsets[number]))
        query.sink[number] = [row for split in splits for row in self.rows_of(split)]
        if crash == "written":
            raise Crash
        query.committed = number + 1

    def rows_of(self, split: InputPartition) -> list[Row]:
        """What a task gives for a split."""
        task = pickle.loads(self.task)
        return [
            row
            for batch in task.read(pickle.loads(pickle.dumps(split)))
            for row in batch.to_pylist()
        ]

    def stop(self) -> None:
        """End it."""
        self.reader.stop()


def new_reader(source: KafkaLogDataSource, schema: StructType) -> KafkaLogStreamReader:
    """A reader as Spark asks for one."""
    reader = source.streamReader(schema)
    assert isinstance(reader, KafkaLogStreamReader)
    return reader


def grow(log: BuiltLog, *counts: int) -> None:
    """Append batches of so many records; each record's value is its offset."""
    for count in counts:
        first = log.next_offset
        log.append(builders.batch([Rec(b"%d" % (first + i)) for i in range(count)], first))


def offsets_of(query: Query, topic: str = "orders", partition: int = 0) -> list[int]:
    """The offsets that the sink has of a partition, sorted."""
    return [offset for name, number, offset in query.seen if (name, number) == (topic, partition)]
