"""Log dirs that were rebuilt, by each way, served by a real broker: exactly the records that were promised.

One broker starts on a whole rebuilt log dir, with its cluster's metadata in it. Then it gets, as the logs of
topics that it knows, what the other ways made of parts of the same source.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint, render_offset_checkpoint
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.files.file_names import LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from engine.log.view.log_bound import LogBound
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.rebuilt import Rebuilt
from engine.units import TopicPartition
from tests.fixtures_data import TruthRecord
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED, Written
from tests.kafka.truth import PartitionTruth, truth_of

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
SALVAGED = ("orders-0", "txn-0", "codec-zstd-0", "days-1")


@dataclass
class Case:
    """A topic of the second start: from which partition, made how, and what is promised of it."""

    topic: str
    source: str
    options: dict[str, Any] = field(default_factory=dict)
    prepare: Any = None
    merges: bool = False
    report: dict[str, Any] = field(default_factory=dict)


def damage(folder: Path, seed: int, hits: int = 1, eighths: tuple[int, int] = (2, 4)) -> None:
    """Flip bits in the records of some batches, below the last, in a part of the file."""
    chance = random.Random(f"{seed} {folder.name}")
    logs = [path for path in sorted(folder.glob("*.log")) if path.stat().st_size > 2000]
    for _ in range(hits):
        path = chance.choice(logs)
        data = bytearray(path.read_bytes())
        at = chance.randrange(len(data) * eighths[0] // 8, len(data) * eighths[1] // 8)
        data[at] ^= 1 << chance.randrange(8)
        path.write_bytes(data)


def damage_unflushed(folder: Path, seed: int) -> None:
    """The same where nobody knows any more what had been flushed: a broker reads all of it again."""
    damage(folder, seed)
    (folder.parent / RECOVERY_POINT_CHECKPOINT).unlink()


def mark_deleted(folder: Path, _: int) -> None:
    """Rename all segments but the last, as retention does."""
    *old, _ = sorted(folder.glob("*.log"))
    for path in old:
        path.rename(path.with_name(path.name + ".deleted"))
        for ending in (".index", ".timeindex", ".txnindex"):
            path.with_suffix(ending).unlink(missing_ok=True)


def lose_last_log(folder: Path, _: int) -> None:
    max(folder.glob("*.log")).unlink()


def lose_all_logs(folder: Path, _: int) -> None:
    for path in folder.glob("*.log"):
        path.unlink()


def tear_last_batch(folder: Path, _: int) -> None:
    path = max(folder.glob("*.log"))
    path.write_bytes(path.read_bytes()[:-5])


HELD = ("last-log-lost", "all-logs-lost", "last-batch-torn")
"""The log end is held by a batch without records."""
CASES = [
    *(
        Case(
            f"cut-{name}",
            f"{name}-0",
            {"start": LogBound(offset=13), "stop": LogBound(offset=91)},
        )
        for name in ("orders", "codec-zstd", "codec-gzip", "codec-snappy", "codec-lz4", "txn")
    ),
    Case("cut-by-time", "days-0"),
    Case(
        "cut-whole",
        "codec-lz4-0",
        {"start": LogBound(offset=50), "stop": LogBound(offset=120), "whole_batches": True},
    ),
    Case("as-broker", "days-0", {"mode": Mode.BROKER, "clean": False}, damage_unflushed),
    Case("merged", "orders-0", {}, damage, merges=True),
    Case("undeleted", "orders-0", {"deleted": True}, mark_deleted),
    Case("below-start", "trimmed-0", {"below_log_start": True}),
    Case("compacted-again", "compacted-0", {}),
    Case("renamed", "weird-0", {}),
    Case("last-log-lost", "days-0", {}, lose_last_log),
    Case("all-logs-lost", "orders-0", {"allow_empty": True}, lose_all_logs),
    Case("last-batch-torn", "orders-0", {}, tear_last_batch),
]


def copy_source(current: Written, target: Path, only: str | None = None) -> Path:
    """A copy of the source, with one partition only if it is named."""

    def others(at: str, names: list[str]) -> list[str]:
        is_root = Path(at) == current.log_dir
        return [
            name for name in names if only and is_root and (current.log_dir / name).is_dir()
            and name != only
        ]  # fmt: skip

    shutil.copytree(current.log_dir, target, ignore=others)
    return target


def make(case: Case, current: Written, folder: Path, topic_id: str) -> Rebuilt:
    """Rebuild the case's partition under its own topic's name and id."""
    source = copy_source(current, folder / "source", case.source)
    merge = []
    if case.merges:
        other = copy_source(current, folder / "other", case.source)
        damage(other / case.source, SEED + 1, hits=3, eighths=(5, 7))  # never the same batch
        merge.append(str(other))
    if case.prepare is not None:
        case.prepare(source / case.source, SEED)
    options = dict(case.options)
    if case.topic == "cut-by-time":
        stamps = sorted(record.timestamp for record in current.truth["days-0"].records)
        options["start"] = LogBound(timestamp=stamps[len(stamps) // 3])
        options["stop"] = LogBound(timestamp=stamps[2 * len(stamps) // 3])
    old = case.source.rpartition("-")[0]
    asked = RebuildOptions(
        topics=(old,), renames={old: case.topic}, topic_ids={case.topic: topic_id}, **options
    )
    return rebuild(str(source), str(folder / "target"), asked, merge=merge)


@dataclass
class Served:
    """What the broker served on each start, and the reports of what it was given."""

    whole: dict[str, PartitionTruth]
    whole_reports: dict[str, dict[str, Any]]
    parts: dict[str, PartitionTruth]
    cases: dict[str, Case]
    next_offsets: dict[str, int]


def offset_of_next_record(bootstrap: str, topic: str) -> int:
    """Produce a record; the offset that the broker gives it."""
    given: list[int] = []
    producer = clients.producer(bootstrap)
    producer.produce(
        topic, b"next", partition=0, on_delivery=lambda _, message: given.append(message.offset())
    )
    assert producer.flush(60) == 0
    [offset] = given
    return offset


@pytest.fixture(scope="module")
def served(current: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("rebuilt")
    source = copy_source(current, home / "source")
    (source / ".kafka_cleanshutdown").unlink()
    for name in SALVAGED:
        damage(source / name, SEED)
    whole = rebuild(str(source), str(home / "data"))
    broker = Broker(home)
    with broker:
        served_whole = truth_of(broker.bootstrap)
        for case in CASES:
            clients.create_topic(broker.bootstrap, case.topic, 1, KEPT)
    starts: dict[TopicPartition, int] = {}
    for case in CASES:
        target = broker.log_dir / f"{case.topic}-0"
        metadata = (target / "partition.metadata").read_bytes()
        folder = tmp_path_factory.mktemp(case.topic)
        result = make(case, current, folder, parse_partition_metadata(metadata).topic_id)
        [case.report] = result.partitions
        made = folder / "target" / target.name
        assert (made / "partition.metadata").read_bytes() == metadata
        shutil.rmtree(target)
        shutil.copytree(made, target)
        checkpoint = folder / "target" / LOG_START_OFFSET_CHECKPOINT
        starts |= parse_offset_checkpoint(checkpoint.read_bytes())
    known = parse_offset_checkpoint((broker.log_dir / LOG_START_OFFSET_CHECKPOINT).read_bytes())
    broker.forget_checkpoints()
    (broker.log_dir / LOG_START_OFFSET_CHECKPOINT).write_bytes(
        render_offset_checkpoint(known | starts)
    )
    with broker:
        yield Served(
            served_whole,
            {each["partition"]: each for each in whole.partitions},
            truth_of(broker.bootstrap, {case.topic for case in CASES}),
            {case.topic: case for case in CASES},
            {topic: offset_of_next_record(broker.bootstrap, topic) for topic in HELD},
        )


def missing_of(report: dict[str, Any]) -> set[int]:
    return {
        offset
        for gap in report["losses"]
        for offset in range(gap["firstOffset"], gap["nextOffset"])
    }


def promised(
    records: list[TruthRecord], report: dict[str, Any], *, committed: bool
) -> list[TruthRecord]:
    """The records of the source that the report says are in the result."""
    end = report["lastStableOffset"] if committed else report["logEndOffset"]
    lost = missing_of(report)
    return [
        record
        for record in records
        if report["logStartOffset"] <= record.offset < end and record.offset not in lost
    ]


def test_a_broker_starts_on_a_salvaged_log_dir_and_serves_all_but_the_damaged_batches(
    current: Written, served: Served
) -> None:
    for name, truth in current.truth.items():
        if truth.internal:
            continue
        got, report = served.whole[name], served.whole_reports[name]
        assert (got.earliest, got.latest) == (truth.earliest, truth.latest), name
        assert got.records == promised(truth.records, report, committed=False), name
        assert got.committed == promised(truth.committed, report, committed=True), name
    for name in SALVAGED:
        assert missing_of(served.whole_reports[name]), name


def test_internal_topics_are_salvaged_like_any_other(current: Written, served: Served) -> None:
    for name, truth in current.truth.items():
        if truth.internal:
            got = served.whole[name].records
            assert got[: len(truth.records)] == truth.records, name


@pytest.mark.parametrize("topic", HELD)
def test_no_offset_is_given_twice_where_the_last_records_are_lost(
    current: Written, served: Served, topic: str
) -> None:
    case = served.cases[topic]
    end = current.truth[case.source].latest
    assert case.report["losses"][-1]["nextOffset"] == end
    assert served.parts[f"{topic}-0"].latest == end
    assert served.next_offsets[topic] == end


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.topic)
def test_a_broker_serves_exactly_what_was_promised(
    current: Written, served: Served, case: Case
) -> None:
    truth, report = current.truth[case.source], case.report
    got = served.parts[f"{case.topic}-0"]
    assert (got.earliest, got.latest) == (report["logStartOffset"], report["logEndOffset"])
    if case.options.get("mode") is Mode.BROKER:
        assert report["logEndOffset"] < truth.latest
        assert got.records == [r for r in truth.records if r.offset < report["logEndOffset"]]
        return
    if case.topic == "below-start":
        assert got.earliest < truth.earliest
        assert [r for r in got.records if r.offset >= truth.earliest] == truth.records
        assert got.records[0].offset == got.earliest
        return
    assert got.records == promised(truth.records, report, committed=False)
    assert got.committed == promised(truth.committed, report, committed=True)
    if case.topic in ("merged", "undeleted", "compacted-again", "renamed"):
        assert not report["losses"]
        assert got.records == truth.records
    elif case.topic.startswith("cut-") and case.topic not in ("cut-whole", "cut-by-time"):
        assert (got.earliest, got.latest) == (13, 91)
    elif case.topic == "cut-whole":
        assert got.earliest <= 50
        assert got.latest >= 120
