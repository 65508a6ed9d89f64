"""All that a broker answers about its partitions, asked while it runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tests.fixtures_data import TruthRecord
from tests.kafka import clients


@dataclass(frozen=True, slots=True)
class PartitionTruth:
    """What clients got: records at both isolation levels, the log's bounds, look-ups by time."""

    topic: str
    partition: int
    earliest: int
    latest: int
    last_stable_offset: int
    records: list[TruthRecord]
    committed: list[TruthRecord]
    for_times: dict[int, int]

    @property
    def folder(self) -> str:
        """The partition's folder's name."""
        return f"{self.topic}-{self.partition}"

    @property
    def internal(self) -> bool:
        """Whether the broker keeps its own state there."""
        return self.topic.startswith("__")

    def right_answer(self, timestamp: int) -> int:
        """The broker's answer to a look-up by time, put right where it misses a record.

        A cleaned segment keeps the largest timestamp of records that are gone. A broker looks for the record
        in the first segment whose largest timestamp fits, and nowhere else.
        """
        answer = self.for_times[timestamp]
        if answer != clients.NO_OFFSET:
            return answer
        late = (record.offset for record in self.records if record.timestamp >= timestamp)
        return next(late, clients.NO_OFFSET)


def truth_of(bootstrap: str, topics: Collection[str] | None = None) -> dict[str, PartitionTruth]:
    """By folder name, for every partition that clients can see, or only those of some topics."""
    found = {}
    with clients.Reader(bootstrap) as every, clients.Reader(bootstrap, committed=True) as stable:
        for topic, partition in clients.partitions_of(bootstrap):
            if topics is not None and topic not in topics:
                continue
            earliest, latest = every.bounds(topic, partition)
            records = every.records(topic, partition)
            truth = PartitionTruth(
                topic,
                partition,
                earliest,
                latest,
                stable.bounds(topic, partition)[1],
                records,
                stable.records(topic, partition),
                every.offsets_for_times(topic, partition, clients.probe_times(records)),
            )
            found[truth.folder] = truth
    return found
