"""Whole starts on damaged log dirs: our plan says what Kafka's own start-up code then does."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import SourceError
from engine.files.file_names import FolderState, folder_name
from engine.plan.loading.broker_failure import Outcome
from engine.plan.loading.broker_versions import broker_version
from engine.plan.log_plan import LogPlan
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.start_plan import StartPlan
from engine.writing.log_config import LogConfig
from tests import fixtures_data as data
from tests.clocks import MockClock
from tests.hurt_starts import NODE, HurtStart, StartMaker
from tests.kafka import jars
from tests.kafka.conftest import SEED
from tests.kafka.load_judge import LoadJudge
from tests.log_scripts import START
from tests.plan_answers import files_on
from tests.random_scripts import RandomScript

STARTS = int(os.environ.get("KAFKAFS_PLANNED_STARTS") or 60)
"""Damaged starts; a long run has thousands."""
AT_ONCE = 20
NOW = START + 1000
CONFIG = {"segment.index.bytes": "4000", "index.interval.bytes": "200"}
BROKER = {"log.index.size.max.bytes": "4000", "log.index.interval.bytes": "200"}
_UNIQUE = re.compile(r"[0-9a-f]{32}")
_METADATA = "__cluster_metadata"


@pytest.fixture(scope="module")
def judge(request: pytest.FixtureRequest) -> Iterator[LoadJudge]:
    with LoadJudge(request.param) as running:
        yield running


class Sound:
    """Logs that nothing happened to: others for each thousand of seeds, so that a seed makes the same on any day."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._made: dict[int, list[tuple[Path, int]]] = {}

    def of(self, seed: int) -> list[tuple[Path, int]]:
        """The folders for a seed, with the end of each log."""
        thousand = seed // 1000
        if thousand not in self._made:
            self._made[thousand] = sound_logs(self._top / str(thousand), thousand * 1000)
        return self._made[thousand]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


def sound_logs(top: Path, seed: int) -> list[tuple[Path, int]]:
    """Logs of random scripts, and the small ones of a broker."""
    found = []
    for number in range(24):
        made = RandomScript(seed + number, top / f"script-{number}", 40)
        end = made.finish()["state"]["log_end_offset"]
        found.append((top / f"script-{number}", end))
    for name in data.partitions("current"):
        folder = data.log_dir("current") / name
        if name.startswith("__") or name.endswith("-delete"):
            continue
        if sum(path.stat().st_size for path in folder.iterdir()) < 200_000:
            shutil.copytree(folder, top / name)
            for file in (top / name).iterdir():
                if file.suffix in (".index", ".timeindex") and file.stat().st_size > 4000:
                    file.write_bytes(file.read_bytes()[:120])
            found.append((top / name, 100))
    return found


class Tally:
    """What a run looked at."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def take(self, start: HurtStart, plan: Planned, answer: dict[str, Any]) -> None:
        """Count a start."""
        self.counts["starts"] += 1
        self.counts["log dirs"] += len(start.log_dirs)
        self.counts[f"starts with {len(start.log_dirs)} log dirs"] += 1
        self.counts["log dirs with a marker of a clean stop"] += plan.clean_count
        self.counts[f"Kafka: {outcome_of(answer).value}"] += 1
        self.counts[f"planned: {plan.outcome.value}"] += 1
        self.counts["damaged starts"] += bool(start.acts)
        why = untold(plan, outcome_of(answer), answer)
        if why:
            self.counts[f"not told: {why}"] += 1
        self.counts["metadata log cannot be believed"] += not plan.is_believed
        self.counts["no metadata log"] += plan.forgets
        self.counts["partitions without a folder"] += len(plan.made)
        for _, log in plan.logs:
            self.counts["logs"] += 1
            self.counts[f"logs in folders {log.state.name}"] += 1
            self.counts[f"logs planned: {log.outcome.value}"] += 1
        for act in start.acts:
            kinds = re.findall(r"'_(\w+)'", act) or [re.sub(r"^dir\d ", "", act)]
            self.counts.update(f"act: {kind}" for kind in kinds)

    def lines(self) -> str:
        """All counts."""
        return "\n".join(f"{name}: {count}" for name, count in sorted(self.counts.items()))


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    """Counted at the end: into the file that $KAFKAFS_STARTS_REPORT names, else the test's output."""
    made = Tally()
    yield made
    report = os.environ.get("KAFKAFS_STARTS_REPORT")
    if report:
        with open(report, "a") as file:
            print(f"seeds from {SEED} on\n{made.lines()}\n", file=file)
    else:
        print(made.lines())


class Planned:
    """Our plan of a start, with the files that each folder then has."""

    def __init__(self, start: HurtStart, version: str) -> None:
        self.files: dict[tuple[str, str], dict[str, Any]] = {}
        with StartPlan(
            [str(each) for each in start.log_dirs],
            broker_version(version),
            config=LogConfig.from_properties(CONFIG),
            clock=MockClock(NOW),
            on_loaded=self._take,
        ) as plan:
            self.logs = [(log_dir.path, log) for log_dir, log in plan.logs()]
            self.outcome, self.reason = plan.verdict()
            self.clean_count = sum(each.has_marker for each in plan.log_dirs)
            self.offline = sorted(
                each.path for each in plan.log_dirs if each.outcome is Outcome.LOG_DIR_OFFLINE
            )
            self.node_id = plan.node_id
            self.forgets = plan.forgets_topics
            self.is_believed = plan.cluster is not None
            self.made = {each.missing.name for each in plan.lost_folders}
            self.risks = [risk for each in plan.log_dirs for risk in each.risks]
            # Whether a broker comes to a log before its log dir failed is up to the file system.
            self.is_race = any("comes to it first" in each.reason for each in plan.failures)
            self.exceptions = {each.java for each in plan.failures}

    def _take(self, _plan: LogPlan, disk: OverlayDisk, path: str) -> None:
        self.files[os.path.split(path)] = files_on(disk, path)


def outcome_of(answer: dict[str, Any]) -> Outcome:
    if answer["failure"] is not None or answer["halts"]:
        return Outcome.BROKER_STOPS
    return Outcome.LOG_DIR_OFFLINE if answer["offline"] else Outcome.LOADS


def differences(plan: Planned, start: HurtStart, copy: Path, answer: dict[str, Any]) -> list[str]:
    """Where Kafka did something else."""
    kafkas = outcome_of(answer)
    if plan.outcome is Outcome.UNKNOWN or untold(plan, kafkas, answer):
        return []
    said = f"{answer['failure']}: {str(answer.get('message'))[:300]} {answer.get('where')}"
    if plan.outcome is not kafkas:
        return [f"{plan.outcome} planned ({plan.reason}), {kafkas} in Kafka ({said})"]
    if kafkas is Outcome.BROKER_STOPS:
        if answer["halts"] or answer["failure"] in plan.exceptions or "" in plan.exceptions:
            return []
        return [f"{sorted(plan.exceptions)} planned ({plan.reason}), {said} in Kafka"]
    found = other_files(plan, start, copy, answer)
    made = {os.path.basename(path) for path in answer["created"]}
    if not answer["offline"] and made != plan.made:
        found.append(f"{sorted(plan.made)} to be made anew, {sorted(made)} in Kafka")
    unserved = answer.get("unserved_because")
    at_risk = bool(answer["unserved"] or answer["cleaner_dies"])
    risks = [each for each in plan.risks if not plan.forgets or "cleaner" in each]
    if not answer["offline"] and at_risk != bool(risks):
        found.append(f"risks {plan.risks}, in Kafka {unserved} {answer['cleaner_dies']}")
    return found


def untold(plan: Planned, kafkas: Outcome, answer: dict[str, Any]) -> str:
    """What nothing on disk tells, and decides about the start; "" where all is told."""
    if plan.is_race and kafkas is Outcome.LOG_DIR_OFFLINE:
        return "whether the broker comes to a log before its log dir fails"
    if not plan.forgets:
        return ""
    # Only the lost metadata log tells whether the logs are this node's: in the judge, none is.
    if plan.offline and answer["failure"] == "KafkaStorageException":
        return "whether it sets logs aside in a log dir that is offline"
    if plan.outcome is kafkas:
        return ""
    if "replication-offset-checkpoint" in plan.reason:
        return "whether it has a partition there, whose high watermark it reads"
    if "is also in" in plan.reason:
        return "whether it has the log that is in two log dirs"
    return ""


def other_files(plan: Planned, start: HurtStart, copy: Path, answer: dict[str, Any]) -> list[str]:
    """Where a start that goes on leaves other log dirs, files or ends."""
    found = []
    top = str(start.log_dirs[0].parent)
    offline = sorted(top + each.removeprefix(str(copy)) for each in answer["offline"])
    if offline != plan.offline:
        found.append(f"offline {plan.offline} planned, {offline} in Kafka")
    ours: dict[tuple[str, str], tuple[LogPlan, Any]] = {}
    known = {log.folder for _, log in plan.logs}
    for log_dir, log in plan.logs:
        name = log.folder if log.renamed_to is None else _UNIQUE.sub("*", log.renamed_to)
        is_live = log.outcome is Outcome.LOADS and log.state in (
            FolderState.LOG,
            FolderState.FUTURE,
        )
        is_kept = is_live and log.renamed_to is None and log.partition.topic != _METADATA
        if plan.forgets and is_kept:  # the judge is the only controller, and forgets it
            name = f"{folder_name(log.partition)}.*{FolderState.STRAY.value}"
        key = log_dir.removeprefix(top), name
        if key in ours:  # two strays of one partition: nobody can tell which is which
            return found
        ours[key] = log, plan.files[log_dir, log.folder]

    def place(path: str) -> tuple[str, str]:
        log_dir, _, name = path.removeprefix(str(copy)).rpartition("/")
        return log_dir, name if name in known else _UNIQUE.sub("*", name)

    theirs = {
        place(f"{log_dir}/{name}"): files
        for log_dir, folders in answer["files"].items()
        for name, files in folders.items()
    }
    ends = {place(path): state for path, state in answer["logs"].items()}
    for key, (log, files) in ours.items():
        after = theirs.get(key)
        if log.partition.topic == _METADATA and any("past the end" in each for each in log.notes):
            continue  # a snapshot replaces the log
        if log.partition.topic == _METADATA:
            files, after = records_files(files), records_files(after or {})
        if after is None:
            found.append(f"{key} planned, {sorted(theirs)} in Kafka")
            continue
        # How many of these are gone by then depends on the order in which the file system lists them.
        passed = ".deleted" if log.java == "NumberFormatException" else "\0"
        found += [
            f"{key} {name}: {files.get(name)} planned, {after.get(name)} in Kafka"
            for name in sorted({*files, *after})
            if files.get(name) != after.get(name) and not name.endswith(passed)
        ]
        if key in ends and [log.log_start, log.log_end] != ends[key]:
            found.append(f"{key}: {log.log_start}..{log.log_end} planned, {ends[key]} in Kafka")
    return found


def records_files(files: dict[str, Any]) -> dict[str, Any]:
    """Of a metadata log, which the judge closes: that makes a snapshot, and cuts the indexes."""
    return {name: each for name, each in files.items() if ".log" in name}


def judge_of(judge: LoadJudge, plan: Planned, start: HurtStart, copy: Path) -> dict[str, Any]:
    """What Kafka does, configured for the node that the log dirs state, if one can be."""
    node_id = plan.node_id
    return judge.start(
        [copy / each.name for each in start.log_dirs],
        NOW,
        node_id=NODE if node_id is None or node_id < 0 else node_id,
        metadata_dir=copy / start.log_dirs[0].name,
        broker=BROKER,
    )


CASES = [
    *((jars.CURRENT, seed) for seed in range(SEED, SEED + STARTS, AT_ONCE)),
    (jars.PREVIOUS, SEED),
]


@pytest.mark.parametrize(("judge", "seed"), CASES, indirect=["judge"])
def test_a_planned_start_is_what_happens(
    judge: LoadJudge, sound: Sound, tally: Tally, tmp_path: Path, seed: int
) -> None:
    wrong, unknown = {}, 0
    for number in range(seed, seed + AT_ONCE):
        top, copy = tmp_path / f"planned-{number}", tmp_path / f"kafka-{number}"
        start = StartMaker(number, top, sound.of(number)).make()
        shutil.copytree(top, copy)
        try:
            plan = Planned(start, judge.version)
        except (
            SourceError
        ):  # nothing in it looks like a log dir: then no broker starts on it, either
            assert not any((log_dir / _METADATA).exists() for log_dir in start.log_dirs)
            continue
        answer = judge_of(judge, plan, start, copy)
        tally.take(start, plan, answer)
        unknown += plan.outcome is Outcome.UNKNOWN
        found = differences(plan, start, copy, answer)
        if found:
            wrong[f"{number} {start.acts}"] = found
        shutil.rmtree(top)
        shutil.rmtree(copy, ignore_errors=True)  # after a failure other logs may still be loading
    lines = "\n".join(f"{name}: {found}" for name, found in wrong.items())
    assert not wrong, lines
    assert unknown < AT_ONCE // 2
