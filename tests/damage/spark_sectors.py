"""Random unreadable sectors below Spark: python -m tests.damage.spark_sectors --seed 1 --sectors 400.

Each sector has a copy of a partition to itself, and all copies are one log dir, so that one job reads from hundreds
of bad places. What a frame and an export lose must be exactly the records whose batch touches the sector, and each must
name the place. Commands with --spark must print what they print without it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from engine.errors import CorruptRecordError
from kafkafs.cli import cli
from kafkafs.spark.session import session
from tests.damage.sector_copies import Copy, make_copies, make_originals
from tests.unreadable import FailingDisk

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FOLDER = "SPARK_SECTORS_FOLDER"
Rows = dict[str, dict[int, int]]
"""By topic: a hash of each record by its offset."""


class Soak:
    """One log dir of copies in which sectors cannot be read, and one of whole partitions beside it."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, count: int) -> None:
        self.spark = spark
        self.sick, self.whole = folder / "sick", folder / "whole"
        self.target = folder / "export"
        for made in (self.sick, self.whole):
            made.mkdir()
        self.copies = make_copies(self.sick, seed, count)
        self.topics = make_originals(self.whole, {copy.original for copy in self.copies})
        FailingDisk(folder, {copy.path: [copy.bad] for copy in self.copies})
        self.before = self.rows(self.frame(self.whole))

    def frame(self, log_dir: Path, **options: str) -> DataFrame:
        """A frame over all of a log dir."""
        from kafkafs.spark import read

        return read(self.spark, str(log_dir), includeHeaders=True, **options)

    def rows(self, frame: DataFrame) -> Rows:
        """The records of a frame."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = ("key", "value", "timestamp", "timestampType", "headers")
        hashed = frame.select("topic", "offset", F.xxhash64(*columns).alias("hash"))
        found: Rows = defaultdict(dict)
        table = hashed.toArrow()
        for topic, offset, number in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        ):
            assert offset not in found[topic], f"{topic} has {offset} twice"
            found[topic][offset] = number
        return found

    def wanted(self, copy: Copy) -> dict[int, int]:
        """The records of a copy that can be read."""
        whole = self.before[self.topics[copy.original]]
        return {offset: number for offset, number in whole.items() if offset not in copy.lost}

    def is_told(self, copy: Copy) -> bool:
        """Whether a record that was there is lost, which must not be passed over."""
        return len(self.wanted(copy)) < len(self.before[self.topics[copy.original]])

    def failures(self) -> Iterator[str]:
        """What is not as it should be."""
        for name, step in (
            ("row", self.of_rows),
            ("skip", self.of_skipping),
            ("fail", self.of_failing),
            ("export", self.of_export),
            ("commands", self.of_commands),
        ):
            started = time.monotonic()
            try:
                wrong = [f"{name}: {each}" for each in step()]
            except Exception:  # noqa: BLE001 - whatever it is, the soak goes on
                wrong = [f"{name}: {traceback.format_exc()}"]
            seconds = time.monotonic() - started
            print(f"{name}: {len(wrong)} failures, {seconds:.0f} s", flush=True)
            yield from wrong

    def compared(self, found: Rows) -> Iterator[str]:
        """What differs from the records that can be read."""
        for copy in self.copies:
            yield from self.differing(copy, found[copy.topic], self.wanted(copy))

    def differing(self, copy: Copy, found: dict[int, int], wanted: dict[int, int]) -> Iterator[str]:
        if found != wanted:
            offsets = [
                offset
                for offset in sorted(found.keys() | wanted.keys())
                if found.get(offset) != wanted.get(offset)
            ]
            yield f"{copy.place}: {len(offsets)} records differ, {offsets[:5]}"

    def named(self, damages: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
        """Copies whose damage is not told, or is told wrongly; `damages` is by topic."""
        for copy in self.copies:
            found = damages.get(copy.topic, [])
            if self.is_told(copy) and not found:
                yield f"{copy.place}: nobody tells of it"
            for each in found:
                if each["kind"] != "unreadable" or each["file"] != str(copy.path):
                    yield f"{copy.place}: {each}"

    def of_rows(self) -> Iterator[str]:
        """onCorrupt=row: all records that can be read, and a row for each hole."""
        frame = self.frame(self.sick, onCorrupt="row").persist()
        yield from self.compared(self.rows(frame.where("_corrupt is null")))
        damages = defaultdict(list)
        for row in frame.where("_corrupt is not null").select("topic", "_corrupt").collect():
            damages[row[0]].append(json.loads(row[1]))
        frame.unpersist()
        yield from self.named(damages)

    def of_skipping(self) -> Iterator[str]:
        """onCorrupt=skip: the same without the rows of the holes."""
        return self.compared(self.rows(self.frame(self.sick, onCorrupt="skip")))

    def of_failing(self) -> Iterator[str]:
        """onCorrupt=fail: an error that names the place; a job each for a few, and the readers for all."""
        for copy in self.copies:
            reason = self.reason_of_failure(copy)
            if (reason is not None) != self.is_told(copy) or not is_reason(copy, reason):
                yield f"{copy.place}: {reason}"
        for copy in [each for each in self.copies if self.is_told(each)][:2]:
            try:
                count = self.frame(copy.folder).count()
            except Exception as error:  # noqa: BLE001 - Spark's, whatever it is
                if not is_reason(copy, str(error)):
                    yield f"{copy.place}: {error}"
            else:
                yield f"{copy.place}: {count} rows and no error"

    def reason_of_failure(self, copy: Copy) -> str | None:
        """What a reader ends with."""
        from kafkafs.spark import data_source

        options = {"path": str(self.sick), "subscribe": copy.topic, "onCorrupt": "fail"}
        source = data_source.KafkaLogDataSource(options)
        reader = source.reader(source.schema())
        try:
            for task in reader.partitions():
                for _ in reader.read(task):
                    pass
        except CorruptRecordError as error:
            return str(error)
        return None

    def of_export(self) -> Iterator[str]:
        """An export has the records that can be read, and a list of the places that cannot."""
        from kafkafs.spark.jobs.files.exported_rows import read_files

        words = ["export", str(self.sick), str(self.target), "--on-corrupt", "skip", "--json"]
        done = CliRunner().invoke(cli, [*words, "--spark", "local[2]"])
        summary = json.loads(done.stdout)
        found = self.rows(read_files(self.spark, str(self.target), "parquet"))
        yield from self.compared(found)
        kept = sum(map(len, found.values()))
        if summary["records"] != kept:
            yield f"says {summary['records']} records, and wrote {kept}"
        damages = defaultdict(list)
        for path in (self.target / "_export" / "damage").glob("*.json"):
            for line in path.read_text().splitlines():
                row = json.loads(line)
                damages[row["topic"]].append(json.loads(row["damage"]))
        listed = sum(map(len, damages.values()))
        if listed != summary["damagedPlaces"]:
            yield f"says {summary['damagedPlaces']} places, and lists {listed}"
        yield from self.named(damages)

    def of_commands(self) -> Iterator[str]:
        """Commands print what they print without executors."""
        for command in (
            ["grep", ""],
            ["stats", "--json"],
            ["stats", "--keys"],
            ["check", "--json"],
        ):
            here, there = (
                CliRunner().invoke(cli, [*command, str(self.sick), *more])
                for more in ([], ["--spark", "local[2]"])
            )
            if (here.exit_code, here.output) != (there.exit_code, there.output):
                yield f"{' '.join(command)}: {there.exit_code}, {there.output[-500:]}"


def is_reason(copy: Copy, reason: str | None) -> bool:
    """Whether an error, if there is one, names the file, and says why."""
    return reason is None or (str(copy.path) in reason and "cannot be read" in reason)


def soak(seed: int, count: int, folder: Path) -> list[str]:
    """Read from so many bad sectors; what went wrong. Runs in a process that reads from a FailingDisk in `folder`."""
    spark = session(
        "sectors",
        master="local[2]",
        quick=True,
        settings={"spark.sql.shuffle.partitions": "2", "spark.local.dir": str(folder)},
    )
    try:
        started = time.monotonic()
        found = Soak(spark, folder, seed, count)
        rows = sum(len(found.wanted(copy)) for copy in found.copies)
        told = sum(map(found.is_told, found.copies))
        failures = list(found.failures())
    finally:
        spark.stop()
    print(
        f"seed {seed}: {count} sectors, {told} of them with records, {rows} records left,"
        f" {len(failures)} failures, {time.monotonic() - started:.0f} s"
    )
    return failures


def main(arguments: list[str] | None = None) -> int:
    """Run the soak in a process whose reads can fail."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sectors", type=int, default=400)
    options = parser.parse_args(arguments)
    given = os.environ.get(_FOLDER)
    if given is None:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**FailingDisk(Path(folder)).environment, _FOLDER: folder}
            again = sys.argv[1:] if arguments is None else arguments
            command = [sys.executable, "-m", "tests.damage.spark_sectors", *again]
            return subprocess.run(command, env=environment, check=False).returncode
    failures = soak(options.seed, options.sectors, Path(given))
    print("\n".join(failures[:50]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
