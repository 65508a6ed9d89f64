"""Partition folders that tests write the way a broker does, and look at as readers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from engine.files.source_files import SourceRoot
from engine.log.log_directory import LogSource, open_source
from engine.log.partition_log import PartitionLog, Shared
from engine.log.segment.log_segment import LogSegment
from engine.log.segment.problems import Problems
from engine.log.segment.scan import BatchRun
from engine.log.source_checkpoints import SourceCheckpoints
from engine.log.view.log_view import LogView
from engine.units import TopicPartition
from tests.builders import Producer, Rec, batch, end_marker, last_offset, segment_files


class LogWriter:
    """Appends to a partition's folder and rolls it; looks at it through a source."""

    def __init__(self, log_dir: Path, name: str = "topic-0", base_offset: int = 0) -> None:
        self.log_dir = log_dir
        self.folder = log_dir / name
        self.folder.mkdir(parents=True)
        self.next_offset = base_offset
        self.base_offset = base_offset
        self.batches: list[bytes] = []
        self._sequences: dict[int, int] = {}
        self._source: LogSource | None = None
        self.records_file.touch()

    @property
    def records_file(self) -> Path:
        """The active segment's."""
        return self.folder / f"{self.base_offset:020}.log"

    def append(self, *batches: bytes) -> None:
        """Whole batches (or messages) as they are."""
        with self.records_file.open("ab") as file:
            for each in batches:
                file.write(each)
                self.batches.append(each)
                self.next_offset = max(self.next_offset, last_offset(each) + 1)

    def append_records(self, *records: Rec | bytes, **options: object) -> int:
        """One batch of records at the log end; its base offset."""
        base = self.next_offset
        made = [Rec(each) if isinstance(each, bytes) else each for each in records]
        self.append(batch(made, base, **options))  # type: ignore[arg-type]
        return base

    def append_transactional(self, producer_id: int, count: int, epoch: int = 0) -> int:
        """One batch of a producer's transaction; its base offset."""
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        producer = Producer(id=producer_id, epoch=epoch, sequence=sequence)
        records = [Rec(b"%d" % number) for number in range(sequence, sequence + count)]
        return self.append_records(*records, producer=producer, transactional=True)

    def append_end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        """The marker that ends a transaction; its offset."""
        base = self.next_offset
        self.append(end_marker(base, Producer(id=producer_id, epoch=epoch), commit=commit))
        return base

    def roll(self, base_offset: int | None = None, *, index_interval: int | None = 4096) -> None:
        """Close the active segment, with its indexes, and begin another."""
        if index_interval is not None:
            self.write_indexes(index_interval)
        self.base_offset = self.next_offset if base_offset is None else base_offset
        self.next_offset = self.base_offset
        self.batches = []
        self.records_file.touch()

    def write_indexes(self, index_interval: int = 4096) -> None:
        """The active segment's indexes as they would be at its end."""
        made = segment_files(self.batches, self.base_offset, index_interval=index_interval)
        for name, data in made.items():
            if not name.endswith(".log"):
                (self.folder / name).write_bytes(data)

    def checkpoint(self, name: str, offset: int) -> None:
        """An offset checkpoint of the log dir, replaced as a broker does it."""
        topic, _, partition = self.folder.name.rpartition("-")
        new = self.log_dir / f"{name}.tmp"
        new.write_text(f"0\n1\n{topic} {partition} {offset}\n")
        os.replace(new, self.log_dir / name)

    def high_watermark(self, offset: int) -> None:
        """Write it to its checkpoint."""
        self.checkpoint("replication-offset-checkpoint", offset)

    def log_start(self, offset: int) -> None:
        """Write it to its checkpoint."""
        self.checkpoint("log-start-offset-checkpoint", offset)

    @property
    def log(self) -> PartitionLog:
        """The partition as a reader has it open."""
        if self._source is None:
            self._source = open_source(str(self.log_dir))
        return self._source.partitions()[self.folder.name]

    def view(self) -> LogView:
        """What a reader sees who looks at it for the first time."""
        self._source = None
        return self.log.view()

    def next_view(self) -> LogView:
        """What a reader sees who looked before."""
        return self.log.view(max_age=0)


def segment_of(tmp_path: Path, batches: Sequence[bytes], base_offset: int = 0) -> LogSegment:
    """One segment with its indexes, alone in its log."""
    writer = LogWriter(tmp_path / "log", base_offset=base_offset)
    writer.append(*batches)
    writer.write_indexes()
    segment = writer.view().active_segment
    assert segment is not None
    return segment


def offsets_of(view: LogView, start: int | None = None, stop: int | None = None) -> list[int]:
    """The offsets of all records in the good batches of a range."""
    from engine import kernel

    found: list[int] = []
    for _, item in view.runs(start, stop):
        if isinstance(item, BatchRun):
            columns = kernel.decode(
                item.buffer, item.table, 0, len(item.table), start_position=item.start_position
            )
            found += columns.offset.tolist()
    return found


def copy_of_folder(source: Path, target: Path) -> Path:
    """A copy that may be written to."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    return target


def live_log(writer: LogWriter, *, is_live: bool = True, frozen: bool = False) -> PartitionLog:
    """The partition, with a broker at work or without one, whatever its lock says."""
    root = SourceRoot(str(writer.log_dir))
    return PartitionLog(
        root,
        writer.folder.name,
        name=writer.folder.name,
        topic_partition=TopicPartition("topic", 0),
        checkpoints=SourceCheckpoints(root, Problems()),
        is_live=lambda: is_live,
        frozen=frozen,
        shared=Shared(),
    )
