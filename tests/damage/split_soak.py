"""Random single hits, and what Spark's tasks read of them: python -m tests.damage.split_soak --hits 2000.

However a log is divided among tasks, and whatever was hit, they give the records of all good batches, none of them more
often than it is there, and tell of damage; a count is that of the rows. No JVM takes part: splits are planned and read in this process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

from engine.errors import CorruptRecordError
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.record.attributes import CONTROL_MASK
from engine.units import Offset
from kafkafs.spark.errors import DataLossError
from kafkafs.spark.source.options.read_options import parse_options
from kafkafs.spark.source.planning.batch_plan import plan_batch
from kafkafs.spark.source.rows import SplitReader
from tests.damage.check_partitions import Partition, partitions
from tests.damage.check_soak import Try, choose, struck

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("_corrupt", pa.string()),
    ]
)
NOTHING = pa.schema([])
SIZES = ("1k", "3k", "20k", "64m")


class Seen(NamedTuple):
    """A record."""

    offset: Offset
    timestamp: int
    key: bytes | None
    value: bytes | None


@dataclass
class Tally:
    """What became of many hits."""

    hits: int = 0
    records: int = 0
    holes: int = 0
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The numbers."""
        return (
            f"{self.hits} hits: {self.records} records and {self.holes} holes read,"
            f" {len(self.wrong)} reads were wrong"
        )


def reference(partition: Partition) -> list[Seen]:
    """The records of all good batches, as the engine scans each segment from its first byte to its last."""
    source = open_source(str(partition.log_dir))
    found: list[Seen] = []
    try:
        view = source.partitions()[partition.name].view()
        for place in range(len(view)):
            segment = view.segment_at(place)
            for item in segment.scan(0, segment.tail_end):
                if isinstance(item, BatchRun):
                    found += _records(item)
    finally:
        source.close()
    return found


def _records(run: BatchRun) -> Iterator[Seen]:
    is_data = (run.table["attributes"] & CONTROL_MASK == 0) | (run.table["magic"] < 2)
    for columns in run.columns(run.table[is_data]):
        for index in range(len(columns)):
            stamp = int(columns.timestamp[index]) * 1000
            yield Seen(int(columns.offset[index]), stamp, columns.key(index), columns.value(index))


class Reading(NamedTuple):
    """What the tasks of a query gave."""

    records: list[Seen]
    holes: list[dict[str, Any]]
    start: Offset
    stop: Offset


def read(partition: Partition, size: str, **options: str) -> Reading:
    """The rows of all tasks, and the range of offsets that was planned."""
    given = parse_options(
        {"path": str(partition.log_dir / partition.name), "splitBytes": size, **options}
    )
    splits = plan_batch(given)
    reader = SplitReader(SCHEMA, given)
    records, holes = [], []
    for split in splits:
        for batch in reader.read(split):
            for row in batch.cast(_numbers()).to_pylist():
                if row["_corrupt"] is None:
                    records.append(Seen(*(row[name] for name in Seen._fields)))
                else:
                    holes.append(json.loads(row["_corrupt"]))
    bounds = (splits[0].start, splits[0].stop) if splits else (0, 0)
    return Reading(records, holes, *bounds)


def _numbers() -> pa.Schema:
    return SCHEMA.set(1, pa.field("timestamp", pa.int64()))


def count(partition: Partition, size: str, **options: str) -> int:
    """How many records a query without columns counts."""
    given = parse_options(
        {"path": str(partition.log_dir / partition.name), "splitBytes": size, **options}
    )
    reader = SplitReader(NOTHING, given)
    return sum(batch.num_rows for split in plan_batch(given) for batch in reader.read(split))


def differences(partition: Partition, random: Random, tally: Tally) -> Iterator[str]:
    """What is wrong with what tasks read, in words."""
    known = reference(partition)
    if not any((partition.log_dir / partition.name).iterdir()):
        if known:
            yield f"{len(known)} records are in a folder without files"
        return  # an empty folder is no source
    size = random.choice(SIZES)
    options = {"failOnDataLoss": "false"}
    if known and random.random() < 0.4:
        offsets = sorted(each.offset for each in random.choices(known, k=2))
        number = partition.name.rpartition("-")[2]
        for name, offset in zip(("startingOffsets", "endingOffsets"), offsets, strict=True):
            topic = partition.name.rpartition("-")[0]
            options[name] = json.dumps({topic: {number: offset}})
    rows = read(partition, size, onCorrupt="row", **options)
    tally.records += len(rows.records)
    tally.holes += len(rows.holes)
    wanted = Counter(each for each in known if rows.start <= each.offset < rows.stop)
    found = Counter(rows.records)
    where = f"splitBytes={size} {options}"
    # A second copy that stands behind its place need not be reached; nor need, by a look-up, what an index leads past.
    is_whole = "startingOffsets" not in options or _ascends(known)
    lost, more = (wanted.keys() - found.keys()) if is_whole else set(), found - wanted
    if lost or more:
        yield (
            f"{where}: {len(lost)} records lost {sorted(each.offset for each in lost)[:5]},"
            f" {more.total()} too many {sorted(each.offset for each in more)[:5]}"
        )
    skipped = read(partition, size, onCorrupt="skip", **options)
    if skipped.records != rows.records or skipped.holes:
        yield f"{where}: onCorrupt=skip gives {len(skipped.records)}, row {len(rows.records)}"
    counted = count(partition, size, onCorrupt="skip", **options)
    if counted != len(rows.records):
        yield f"{where}: count is {counted}, and there are {len(rows.records)} rows"
    try:
        strict = read(partition, size, onCorrupt="fail", **options)
    except CorruptRecordError as error:
        if not rows.holes:
            yield f"{where}: onCorrupt=fail fails without a hole: {error}"
    else:
        tail = [each for each in rows.holes if each["kind"] != "torn_tail"]
        if tail or strict.records != rows.records:
            yield f"{where}: onCorrupt=fail is silent on {tail[:2]}"


def _ascends(records: list[Seen]) -> bool:
    return all(one.offset < other.offset for one, other in pairwise(records))


class Soak:
    """Many hits on the partitions of brokers and of the engine."""

    def __init__(self, work: Path) -> None:
        self.partitions = partitions(work)
        self.tally = Tally()

    def run(self, seed: int, numbers: range) -> Tally:
        """Try the hits of these numbers."""
        for number in numbers:
            random = Random(f"{seed}-{number}")
            partition = random.choice(self.partitions)
            hit = choose(partition, random)
            self._try(partition, hit, random, f"hit {number} of seed {seed}")
        return self.tally

    def _try(self, partition: Partition, hit: Try, random: Random, name: str) -> None:
        self.tally.hits += 1
        label = f"{name}, {partition.name} {hit.path}: {hit.what}"
        try:
            with struck(partition, hit):
                for wrong in differences(partition, random, self.tally):
                    self.tally.wrong.append(f"{label}: {wrong}")
        except DataLossError as error:
            self.tally.wrong.append(f"{label}: {error}")
        except Exception:  # noqa: BLE001  that is what is looked for
            self.tally.wrong.append(f"{label}: {traceback.format_exc()}")


def main() -> int:
    """Exit status 1 when anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hits", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="split-soak-") as work:
        tally = Soak(Path(work)).run(given.seed, range(given.hits))
    for line in tally.wrong:
        print(line)
    print(tally.text())
    return int(bool(tally.wrong))


if __name__ == "__main__":
    sys.exit(main())
