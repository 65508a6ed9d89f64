"""Clean partitions to hit: copies of what brokers wrote, and one that the engine wrote."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.record.memory_records import MemoryRecords
from engine.writing.log_config import LogConfig
from tests import fixtures_data
from tests.builders import NONE, Producer, Rec, batch, end_marker
from tests.clocks import MockClock, MockScheduler
from tests.damage.meaning import Row, Segment, aborts_of, rows_of

KINDS = ("current", "legacy", "crashed", "live")
MOST_BYTES = 240_000
START = 1_700_000_000_000
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
WITH_METADATA = ("open-txn-0", "retained-0", "empty-0")
METADATA = "__cluster_metadata-0"


@dataclass
class Partition:
    """A clean partition in a log dir of its own.

    Attributes:
        log_dir, name: where it is.
        files: bytes by path below the log dir: the partition's files, and the log dir's own.
        rows: batches by the path of their .log file.
    """

    log_dir: Path
    name: str
    files: dict[str, bytes]
    rows: dict[str, list[Row]]

    @property
    def logs(self) -> list[str]:
        """The paths of its records files by base offset."""
        return sorted(self.rows)

    def beside(self, suffix: str) -> list[str]:
        """The paths of its files with an ending, sorted."""
        return sorted(path for path in self.files if path.endswith(suffix))

    def segments(self, changed: dict[str, bytes | None] | None = None) -> list[Segment]:
        """Its segments with their indexes, of which some may be others."""
        files: dict[str, bytes | None] = {**self.files, **(changed or {})}
        return [
            Segment(
                int(Path(path).stem),
                self.rows[path],
                files.get(path[:-4] + ".index"),
                files.get(path[:-4] + ".timeindex"),
            )
            for path in self.logs
        ]

    @property
    def all_rows(self) -> list[Row]:
        """The batches of all segments."""
        return [row for path in self.logs for row in self.rows[path]]

    @property
    def aborts(self) -> dict[int, int]:
        """By offset, the producer of each ABORT marker."""
        found: dict[int, int] = {}
        for path in self.logs:
            found |= aborts_of(self.files[path], self.rows[path])
        return found

    @property
    def has_metadata(self) -> bool:
        """Whether the cluster's metadata lies in the log dir too."""
        return (self.log_dir / METADATA).is_dir()

    @property
    def is_compacted(self) -> bool:
        """Whether offsets are missing in it, or may be by its topic."""
        rows = self.all_rows
        gaps = any(after.base > row.last + 1 for row, after in pairwise(rows))
        return gaps or self.name.startswith(("__consumer_offsets", "__transaction_state"))


def partitions(work: Path) -> list[Partition]:
    """Working copies of the small partitions in tests/data, and one of the engine's own."""
    found = [made(work / "made")]
    for kind in KINDS:
        for name in fixtures_data.partitions(kind):
            size = sum(path.stat().st_size for path in fixtures_data.logs(kind, name))
            if size > MOST_BYTES or "-delete" in name:
                continue
            only = [name, METADATA] if kind == "current" and name in WITH_METADATA else [name]
            log_dir = fixtures_data.copy_of(kind, work / f"{kind}-{len(found)}", only)
            found.append(taken(log_dir, name))
    return found


def taken(log_dir: Path, name: str) -> Partition:
    """A partition as it is, in a log dir whose checkpoints name nothing else."""
    for checkpoint in CHECKPOINTS:
        path = log_dir / checkpoint
        if path.exists():
            lines = [line for line in path.read_text().splitlines()[2:] if _is_of(line, name)]
            path.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    for path in (log_dir / name).iterdir():
        if path.name.endswith((".deleted", ".swap", ".cleaned")):
            path.unlink()
    _begin_epochs_with_the_log(log_dir / name)
    files = {path.name: path.read_bytes() for path in log_dir.iterdir() if path.is_file()}
    files |= {f"{name}/{path.name}": path.read_bytes() for path in (log_dir / name).iterdir()}
    rows = {path: rows_of(data) for path, data in files.items() if path.endswith(".log")}
    return Partition(log_dir, name, files, rows)


def _begin_epochs_with_the_log(folder: Path) -> None:
    """Where first segments were left out of the test data, do what retention does to the leader epochs."""
    first = min((int(path.stem) for path in folder.glob("*.log")), default=0)
    path = folder / "leader-epoch-checkpoint"
    if first and path.read_text().splitlines()[2:] == ["0 0"]:
        path.write_text(f"0\n1\n0 {first}\n")


def _is_of(line: str, name: str) -> bool:
    topic, _, number = name.rpartition("-")
    return line.split()[:2] == [topic, number]


def made(log_dir: Path) -> Partition:
    """Five leader epochs, three producers with and without transactions, nine segments, a broker's clean stop."""
    name = "made-0"
    log_dir.mkdir(parents=True)
    config = LogConfig.from_properties(
        {"internal.segment.bytes": "6000", "index.interval.bytes": "300", "retention.ms": "-1"}
    )
    clock = MockClock(START)
    scheduler = MockScheduler(clock)
    topic_id = "sgf5MsZgRTuEMv68ZXKJbQ"
    with UnifiedLog.create(
        log_dir / name, config, scheduler, clock=clock, topic_id=topic_id
    ) as log:
        for data, epoch in _batches(Random(5)):
            log.append_as_follower(MemoryRecords(data), epoch)
        end = log.log_end_offset
    scheduler.shutdown()
    for checkpoint in CHECKPOINTS[:3]:
        lines = [] if checkpoint.startswith("log-start") else [f"made 0 {end}"]
        (log_dir / checkpoint).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")
    shutil.copy2(fixtures_data.log_dir("current") / "meta.properties", log_dir)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":10}')
    return taken(log_dir, name)


def _batches(random: Random) -> list[tuple[bytes, int]]:
    """Batches as a leader would have written them, with their leader epochs."""
    found: list[tuple[bytes, int]] = []
    sequences = dict.fromkeys((7, 8, 9), 0)
    is_open: set[int] = set()
    offset = epoch = 0
    codecs = [NONE, NONE, CompressionType.GZIP, CompressionType.ZSTD]
    for number in range(220):
        if number % 45 == 44:
            epoch += random.choice([1, 2])
        time = START + 1000 * number
        producer = random.choice([None, 7, 8, 9])
        if producer in is_open and random.random() < 0.3:
            who = Producer(id=producer or 0)
            commits = random.random() < 0.5
            marker = end_marker(offset, who, commit=commits, leader_epoch=epoch, timestamp=time)
            found.append((marker, epoch))
            is_open.discard(producer or 0)
            offset += 1
            continue
        records = [
            Rec(random.randbytes(random.randint(5, 60)), b"k%d" % at, time + at)
            for at in range(random.randint(1, 5))
        ]
        options = {}
        if producer is not None:
            options["producer"] = Producer(id=producer, sequence=sequences[producer])
            sequences[producer] += len(records)
            if producer != 9:
                options["transactional"] = True
                is_open.add(producer)
        codec = random.choice(codecs)
        data = batch(records, offset, codec, leader_epoch=epoch, **options)
        found.append((data, epoch))
        offset += len(records)
    return found
