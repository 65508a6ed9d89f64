"""One record by its offset, warm: our log view beside Kafka's LogSegment.read in a JVM."""

from __future__ import annotations

import os
import random
from pathlib import Path

import bench_data
from bench_jvm import Peer
from bench_report import Report, Sample, timed

from engine.log.log_directory import open_source
from engine.log.partition_log import PartitionLog

LOOKUPS = 20_000
HOT_SEGMENTS = 256  # "warm": the files are open on both sides, whatever the log's length
LARGEST_FOR_JVM = 2_000  # it keeps three files of each segment open


def run(report: Report, peer: Peer, counts: list[int]) -> None:
    """For logs of that many segments, plain and zstd."""
    for codec in ("none", "zstd"):
        for count in counts:
            folder, step = bench_data.many_segments(codec, count)
            _run_one(report, peer, codec, folder, count, step)


def _run_one(report: Report, peer: Peer, codec: str, folder: Path, count: int, step: int) -> None:
    offsets = _offsets(count, step)
    source = open_source([str(folder.parent)])
    try:
        log = source.partitions()[folder.name]
        found = log.view().record(offsets[0])
        assert found is not None
        assert int(found[0].offset[found[1]]) == offsets[0]

        def ours() -> Sample:
            return timed(lambda: _look_up(log, offsets))

        name = f"{'plain' if codec == 'none' else codec}, {count:,} segments"
        work = len(offsets) / 1e3
        if count > LARGEST_FOR_JVM:
            report.alone("lookup", name, work, "k/s", ours, target="as with fewer segments")
            return
        asked = bench_data.cache() / f"offsets-{os.getpid()}"
        asked.write_text("\n".join(map(str, offsets)), encoding="ascii")
        try:
            peer.run("segments", folder)
            peer.warm_up(4, "lookups", asked)
            report.compare(
                "lookup",
                name,
                work,
                "k/s",
                ours,
                lambda: peer.run("lookups", asked).sample,
                target="wall 0.9" if codec == "none" else "wall 1",
            )
        finally:
            asked.unlink()
    finally:
        source.close()


def _look_up(log: PartitionLog, offsets: list[int]) -> None:
    for offset in offsets:
        log.view().record(offset)


def _offsets(count: int, step: int) -> list[int]:
    choice = random.Random(count)
    segments = choice.sample(range(count), min(count, HOT_SEGMENTS))
    return [choice.choice(segments) * step + choice.randrange(step) for _ in range(LOOKUPS)]
