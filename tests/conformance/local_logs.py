"""A LocalLog on a clock that stands still, and what Kafka's tests put into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.broker.log.local_log import LocalLog
from engine.log.log_segments import LogSegments
from engine.log.segment.fetch import FetchDataInfo
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import LogOffsetMetadata, TopicPartition
from engine.writing.log_config import LogConfig
from engine.writing.log_folder import WritableLogFolder
from engine.writing.segment.writable_segment import WritableSegment
from tests.clocks import MockClock, MockScheduler

TOPIC_PARTITION = TopicPartition("test_topic", 1)


class LocalLogSetUp:
    """A log of one empty segment.

    Attributes:
        folder: of the partition; `log` may move away from it.
        clock, log: to be used.
    """

    def __init__(self, log_dir: Path, config: LogConfig | None = None) -> None:
        self.folder = log_dir / str(TOPIC_PARTITION)
        self.folder.mkdir()
        self.clock = MockClock()
        config = config or LogConfig()
        segment = WritableSegment.open(self.folder, 0, config, self.clock)
        self.log = LocalLog(
            WritableLogFolder(
                self.folder, TOPIC_PARTITION, config, MockScheduler(self.clock), self.clock
            ),
            LogSegments([segment]),
            0,
            LogOffsetMetadata(0, 0, 0),
        )

    def append(self, first_offset: int, *records: tuple[str, str], later_ms: int = 0) -> None:
        """One batch of these keys and values."""
        self.append_records(
            first_offset,
            [
                SimpleRecord(key.encode(), value.encode(), self.clock.ms + later_ms)
                for key, value in records
            ],
        )

    def append_a(self, offset: int) -> None:
        """A record of value a without a key."""
        self.append_records(offset, [SimpleRecord(value=b"a", timestamp=self.clock.ms)])

    def append_records(self, first_offset: int, records: Sequence[SimpleRecord]) -> None:
        batch = records_of(*records, base_offset=first_offset, partition_leader_epoch=0)
        self.log.append(first_offset + len(records) - 1, batch)

    def read(
        self,
        start_offset: int = 0,
        max_length: int | None = None,
        max_offset_metadata: LogOffsetMetadata | None = None,
    ) -> FetchDataInfo:
        """What a read up to the log end gives, of at most the active segment's size."""
        return self.log.read(
            start_offset,
            self.log.segments.active_segment.size if max_length is None else max_length,
            False,
            max_offset_metadata or self.log.log_end_offset_metadata,
            False,
        )

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def key_values(fetched: FetchDataInfo) -> list[tuple[str, str]]:
    return [
        ((record.key or b"").decode(), (record.value or b"").decode())
        for record in fetched.records.records()
    ]
