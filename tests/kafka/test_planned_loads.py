"""Damaged log dirs: our plan says what Kafka's own LogManager then does, to the byte of each file."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.checkpoint.offset_checkpoint import render_offset_checkpoint
from engine.files.file_names import log_file_name
from engine.files.source_files import SourceRoot
from engine.kernel import decode
from engine.log.segment.scan import BatchRun, scan
from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_plan import LogPlan
from engine.units import TopicPartition
from tests import fixtures_data as data
from tests.hurt_folders import Hurt
from tests.kafka import jars
from tests.kafka.conftest import SEED
from tests.kafka.load_judge import LoadJudge
from tests.log_scripts import START
from tests.plan_answers import planned
from tests.random_scripts import RandomScript

FOLDERS = int(os.environ.get("KAFKAFS_PLANNED_FOLDERS") or 60)
"""Damaged folders; a long run has thousands."""
PER_DIR = 20
_NUMBER = re.compile(r"-?\d+", re.ASCII)
NOW = 1_795_000_000_000
CONFIG = {"segment.index.bytes": "4000", "index.interval.bytes": "200"}
_FROM_BROKERS = [
    (kind, name)
    for kind in data.KINDS
    for name in data.partitions(kind)
    if not name.endswith("-delete")
    and sum(path.stat().st_size for path in (data.log_dir(kind) / name).iterdir()) < 1 << 20
]


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[LoadJudge]:
    with LoadJudge(getattr(request, "param", jars.CURRENT)) as running:
        yield running


def make_folder(seed: int, log_dir: Path, number: int) -> tuple[TopicPartition, int, list[str]]:
    """A damaged folder: whose it is, its log's end before, and what was done to it."""
    chance = random.Random(seed)
    partition = TopicPartition("hurt", number)
    folder = log_dir / str(partition)
    if chance.random() < 0.25:
        kind, name = chance.choice(_FROM_BROKERS)
        shutil.copytree(data.log_dir(kind) / name, folder)
        for file in folder.iterdir():
            if file.suffix in (".index", ".timeindex") and file.stat().st_size > 4000:
                file.write_bytes(file.read_bytes()[:120])
        end = 1000
    else:
        made = RandomScript(seed, folder, chance.choice([5, 30, 60]))
        end = made.finish()["state"]["log_end_offset"]
    return partition, end, Hurt(seed, folder).hurt()


def make_dir(seed: int, log_dir: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Damaged folders with checkpoints at random places; what to tell the loader, and what was done."""
    chance = random.Random(seed)
    log_dir.mkdir(parents=True)
    recovery_points, log_starts, acts = {}, {}, {}
    for number in range(PER_DIR):
        partition, end, acts[str(partition)] = make_folder(seed + number, log_dir, number)
        if chance.random() < 0.6:
            recovery_points[partition] = chance.choice([0, end, chance.randrange(end + 5)])
        if chance.random() < 0.3:
            log_starts[partition] = chance.choice([0, chance.randrange(end + 2)])
    for name, offsets in (
        ("recovery-point-offset-checkpoint", recovery_points),
        ("log-start-offset-checkpoint", log_starts),
    ):
        (log_dir / name).write_bytes(render_offset_checkpoint(offsets))
    now = chance.choice([START + 1000, NOW])
    head = {"recovery_points": recovery_points, "log_starts": log_starts, "now_ms": now}
    return head, acts


def outcome_of(answer: dict[str, Any]) -> str:
    if "error" not in answer:
        return str(Outcome.LOADS.value)
    return str((Outcome.LOG_DIR_OFFLINE if answer["is_io"] else Outcome.BROKER_STOPS).value)


def differences(plan: LogPlan, files: Any, answer: dict[str, Any]) -> list[str]:
    """Where Kafka did something else."""
    found = []
    pairs: list[tuple[str, Any, Any]] = [("outcome", plan.outcome.value, outcome_of(answer))]
    if plan.outcome is Outcome.LOADS and "error" not in answer:
        pairs += [
            ("log start", plan.log_start, answer["log_start"]),
            ("log end", plan.log_end, answer["log_end"]),
            ("epochs", list(map(list, plan.epochs_after or ())), answer["epochs"]),
            ("topic id", plan.topic_id, answer["topic_id"]),
        ]
    names = {*files, *answer["files"]}
    if answer.get("error") == "NumberFormatException":
        # How many of these are gone by then depends on the order in which the file system lists them.
        names = {name for name in names if not name.endswith(".deleted")}
    pairs += [
        (f"file {name}", files.get(name), answer["files"].get(name)) for name in sorted(names)
    ]
    for what, ours, kafkas in pairs:
        if ours != kafkas:
            found.append(f"{what}: {ours} planned, {kafkas} in Kafka")
    if found and "error" in answer:
        found.append(
            f"{answer['error']}: {answer['message'][:200]} / {plan.java}: {plan.reason[:200]}"
        )
    return found


def offsets_in(folder: Path, start: int, end: int = 1 << 63) -> list[int] | None:
    """The offsets of all records in good batches of a folder's log, None when some cannot be decoded."""
    found: list[int] = []
    # The usual name, if one offset has several: a loader opens no other.
    named = sorted(folder.glob("*.log"), key=lambda path: len(path.name))
    files = {int(path.stem): path for path in named if _NUMBER.fullmatch(path.stem)}
    # A segment with a negative base offset is read only if the log start is in it.
    first = max((base for base in files if base <= start), default=0)
    with SourceRoot(str(folder)) as root:
        for base, path in sorted(files.items()):
            if base < min(first, 0):
                continue
            with root.open_fresh(path.name) as file:
                for run in scan(file, 0, file.size()):
                    if isinstance(run, BatchRun):
                        count = len(run.table)
                        columns = decode(
                            run.buffer, run.table, 0, count, start_position=run.start_position
                        )
                        if columns.problems:  # their headers count records that nobody can read
                            return None
                        found += columns.offset.tolist()
    return [offset for offset in found if start <= offset < end]


def wrong_losses(plan: LogPlan, before: Path, after: Path, log_start: int) -> list[str]:
    """Whether records lost are not those that are there before and not after Kafka has loaded the log."""
    segments = [int(path.stem) for path in before.glob("*.log") if path.stem.isdigit()]
    start = max(log_start, min(segments, default=0))
    had = offsets_in(before, start)
    # In a records file of another name, no reader gets these, but they go with the file.
    below = offsets_in(before, log_start, start)
    assert plan.log_start is not None
    assert plan.log_end is not None
    has = offsets_in(after, plan.log_start, plan.log_end)
    odd = any(
        path.suffix == ".swap" or not path.stem.isdigit()
        for path in before.glob("*.*")
        if path.name != "partition.metadata"
    )
    if odd or had is None or below is None or has is None:
        return []  # what of such a log is lost is a matter of words
    lost, gone = plan.losses.records + plan.losses.control_records, Counter(had) - Counter(has)
    left = offsets_in(after, plan.log_start) or []
    if had == sorted(set(had)) and left == has:
        ranges = plan.losses.ranges
        fits = all(any(first <= offset < end for first, end in ranges) for offset in gone)
        if fits and gone.total() <= lost <= gone.total() + len(below):
            return []
    else:
        # Of records beyond the log's end, in the midst of the log, a reader gets those that it passes by.
        removed = Counter(had) - Counter(left)
        if removed.total() <= lost <= gone.total():
            return []
    return [f"lost: {plan.losses} planned, {gone.total()} in Kafka: {sorted(gone)}"]


def wrong_plans(judge: LoadJudge, work: Path, seed: int) -> tuple[dict[str, list[str]], int]:
    """Where plans of a damaged log dir differ from what Kafka did, by folder; and how many segments it had."""
    log_dir = work / "data"
    head, acts = make_dir(seed, log_dir)
    wrong = {}
    for clean in (False, True):
        copy = work / f"kafka-{clean}"
        shutil.copytree(log_dir, copy)
        answer = judge.load_dir(copy, head["now_ms"], CONFIG, clean=clean)
        plans = planned(log_dir, config=CONFIG, clean=clean, version=judge.version, **head)
        for name, (plan, files) in plans.items():
            found = differences(plan, files, answer["folders"][name])
            if not found and plan.outcome is Outcome.LOADS:
                start = head["log_starts"].get(plan.partition, 0)
                found = wrong_losses(plan, log_dir / name, copy / name, start)
            if found:
                wrong[f"{name} clean={clean} {acts[name]}"] = found
    return wrong, len(list(log_dir.glob("*/*.log")))


SEEDS = range(SEED, SEED + max(FOLDERS // PER_DIR, 1) * PER_DIR, PER_DIR)
ONCE_PLANNED_OTHERWISE = (jars.CURRENT, 1_000_003_420)
"""A wrapper that ends its segment, with a message whose key is longer than it."""
CASES = [*((jars.CURRENT, seed) for seed in SEEDS), ONCE_PLANNED_OTHERWISE, (jars.PREVIOUS, SEED)]


@pytest.mark.parametrize(("judge", "seed"), CASES, indirect=["judge"])
def test_a_plan_is_what_happens(judge: LoadJudge, tmp_path: Path, seed: int) -> None:
    wrong, _ = wrong_plans(judge, tmp_path, seed)
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


NEGATIVE_NAMES = ("-5.log", "-5.index", "-7.log.swap", "-9.log.cleaned", f"-{6:020}.timeindex")


def test_a_plan_of_negative_offsets_is_what_happens(judge: LoadJudge, tmp_path: Path) -> None:
    log_dir = tmp_path / "data"
    starts: dict[TopicPartition, int] = {}
    for number in range(PER_DIR):
        chance = random.Random(SEED + number)
        partition = TopicPartition("hurt", number)
        folder = log_dir / str(partition)
        RandomScript(SEED + number, folder, 30).finish()
        hurt = Hurt(SEED + number, folder)
        for _ in range(chance.randrange(3)):
            hurt._shift_base(-chance.choice([100, 1000, 2**40]))
        for name in chance.sample(NEGATIVE_NAMES, chance.randrange(3)):
            source = chance.choice(sorted(folder.glob("*.log")))
            (folder / name).write_bytes(chance.choice([b"", source.read_bytes()]))
        if chance.random() < 0.3:
            starts[partition] = -3
        if chance.random() < 0.2:
            for path in folder.iterdir():
                path.unlink()
    lines = ["0", str(len(starts)), *(f"hurt {each.partition} -3" for each in starts)]
    (log_dir / "log-start-offset-checkpoint").write_text("\n".join([*lines, ""]))
    wrong = {}
    for clean in (False, True):
        copy = tmp_path / f"kafka-{clean}"
        shutil.copytree(log_dir, copy)
        answer = judge.load_dir(copy, NOW, CONFIG, clean=clean)
        plans = planned(
            log_dir,
            NOW,
            CONFIG,
            clean=clean,
            recovery_points={},
            log_starts=starts,
            version=judge.version,
        )
        assert any(log_file_name(-5) in files for _, files in plans.values())
        for name, (plan, files) in plans.items():
            found = differences(plan, files, answer["folders"][name])
            if found:
                wrong[f"{name} clean={clean}"] = found
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())
