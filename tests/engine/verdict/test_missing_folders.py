"""What became of partitions without a folder is decided once: check, plan, rebuild and the problems say the same."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from contextlib import closing
from itertools import combinations
from pathlib import Path

import pytest

from engine.check.log_dir_check import CheckOptions, SourceCheck
from engine.check.rules.finding import Finding
from engine.check.rules.rules import Severity
from engine.log.log_directory import open_source
from engine.plan.start_plan import StartPlan
from engine.rebuild.options import RebuildOptions
from engine.rebuild.selection import select
from engine.verdict.loss import Loss
from engine.verdict.missing_folders import Absence, MissingFolder
from engine.verdict.source_losses import absent_partitions, lost_partitions, source_problems
from tests.builders import batch
from tests.engine.check.logs import Clock
from tests.fixtures_data import copy_of, partitions
from tests.replayed_bytes import NOW, metadata_record, write_metadata_log

LOG = "orders-0"
CHECKPOINTS = [f"{name}-offset-checkpoint" for name in ("replication", "recovery-point")]
MARK = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    made = copy_of("sample", tmp_path, partitions("sample"))
    write_metadata_log(made)
    return made


def name_in_checkpoints(data: Path, line: str) -> None:
    for name in CHECKPOINTS:
        version, count, *lines = (data / name).read_text().splitlines()
        text = "\n".join([version, str(int(count) + 1), *lines, line])
        (data / name).write_text(text + "\n")


def gone(data: Path) -> None:
    shutil.rmtree(data / LOG)


def another_deleted(data: Path) -> None:
    name_in_checkpoints(data, "bygone 0 5")


def another_cleaned(data: Path) -> None:
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nbygone 0 5\n")


def no_metadata(data: Path) -> None:
    shutil.rmtree(data / "__cluster_metadata-0")


def no_checkpoints(data: Path) -> None:
    for path in data.glob("*-offset-checkpoint"):
        path.unlink()


def a_day_older(data: Path) -> None:
    """A topic of the next day, so that no other is new."""
    log = data / "__cluster_metadata-0" / f"{0:020}.log"
    with closing(open_source(str(data))) as source:
        end = source.partitions()["__cluster_metadata-0"].view().log_end_offset
    later = metadata_record(
        "TOPIC_RECORD", NOW + 86_400_000, name="later", topicId="cmVjb3JkcyBvZiBsb2dzIQ"
    )
    with open(log, "ab") as file:
        file.write(batch([later], end))


def set_aside(data: Path) -> None:
    (data / LOG).rename(data / f"{LOG}.{MARK}-stray")


def linked(data: Path) -> None:
    shutil.move(data / LOG, data.parent / "moved-0")
    (data / LOG).symlink_to(data.parent / "moved-0")


def other_node(data: Path) -> None:
    meta = data / "meta.properties"
    meta.write_text(re.sub(r"node\.id=\d+", "node.id=77", meta.read_text()))


def other_directory(data: Path) -> None:
    meta = data / "meta.properties"
    text = re.sub(r"directory\.id=.*", "directory.id=cmVjb3JkcyBvZiBsb2dzIQ", meta.read_text())
    meta.write_text(text)


Act = Callable[[Path], None]
CASES: list[tuple[list[Act], dict[str, Absence], bool]] = [
    ([gone], {LOG: Absence.LOST}, True),
    ([set_aside], {LOG: Absence.LOST}, True),
    ([gone, no_checkpoints], {LOG: Absence.NEW}, False),
    ([gone, no_checkpoints, a_day_older], {LOG: Absence.LOST}, False),
    ([gone, other_directory], {LOG: Absence.LOST}, False),
    ([gone, other_node], {LOG: Absence.MOVED}, False),
    ([gone, no_metadata], {LOG: Absence.UNKNOWN}, False),
    ([another_deleted], {"bygone-0": Absence.DELETED}, False),
    ([gone, another_deleted], {LOG: Absence.LOST, "bygone-0": Absence.DELETED}, True),
    ([another_cleaned], {}, False),
    ([linked], {}, False),
    ([], {}, False),
]


def absent(data: Path) -> list[MissingFolder]:
    with closing(open_source(str(data))) as source:
        return absent_partitions(source)


def named(acts: list[Act]) -> str:
    return " and ".join(act.__name__ for act in acts) or "sound"


@pytest.mark.parametrize("case", CASES, ids=lambda case: named(case[0]))
def test_the_metadata_decides_what_became_of_a_partition_without_a_folder(
    data: Path, case: tuple[list[Act], dict[str, Absence], bool]
) -> None:
    acts, expected, is_lost = case
    for act in acts:
        act(data)
    assert {each.name: each.absence for each in absent(data)} == expected
    with closing(open_source(str(data))) as source:
        assert [each.name for each in lost_partitions(source)] == ([LOG] if is_lost else [])


def said_by_check(data: Path) -> tuple[set[str], set[str], set[str]]:
    """The partitions in losses, in findings that are no notes, and in notes."""
    with closing(open_source(str(data))) as source:
        events = list(SourceCheck(source, CheckOptions(clock=Clock())).beside())
    rules = ("partition-lost", "checkpoint-without-folder")
    found = [each for each in events if isinstance(each, Finding) and each.rule in rules]

    def names(severities: set[Severity]) -> set[str]:
        return {
            str(name)
            for each in found
            if each.severity in severities
            for name in [each.partition, *each.facts.get("topicPartitions", ())]  # type: ignore[misc]
            if name
        }

    lost = {each.partition for each in events if isinstance(each, Loss)}
    return lost, names({Severity.ERROR, Severity.WARNING}), names({Severity.NOTE})


@pytest.mark.parametrize("acts", [*combinations([gone, another_deleted, no_checkpoints, no_metadata, other_directory, other_node], 2),
    *combinations([gone, another_deleted, no_checkpoints, no_metadata, other_directory, other_node], 3), (gone,), (set_aside,), (linked,)], ids=named)  # fmt: skip
def test_check_plan_rebuild_and_problems_name_the_same_partitions(
    data: Path, acts: list[Act]
) -> None:
    for act in sorted(acts, key=lambda act: act is no_checkpoints):
        act(data)
    decided = absent(data)
    certain = {each.name for each in decided if each.is_certain}
    losses, bad, notes = said_by_check(data)
    assert losses == certain
    assert bad == {each.name for each in decided if not each.is_harmless}
    assert notes == {each.name for each in decided if each.is_harmless and each.named_in}
    with closing(open_source(str(data))) as source:
        told = {each["file"] for each in source_problems(source) if each["kind"] == "missing"}
        assert told == certain
        left_out = {
            each.path for each in select([source], RebuildOptions()).left_out if each.is_loss
        }
        assert {name for name in left_out if "/" not in name} == certain
    with StartPlan([str(data)]) as start:
        planned = {each.missing.name: each.missing for each in start.lost_folders}
    for name, missing in planned.items():
        assert [missing] == [each for each in decided if each.name == name]
    made_anew = (Absence.LOST, Absence.NEW, Absence.EMPTY)
    assert {each.name for each in decided if each.absence in made_anew} == set(planned)


def test_a_partition_that_held_no_record_at_a_clean_stop_is_no_loss(data: Path) -> None:
    gone(data)
    for name in CHECKPOINTS:
        text = (data / name).read_text()
        (data / name).write_text(re.sub(r"orders 0 \d+", "orders 0 0", text))
    (found,) = absent(data)
    assert (found.absence, found.is_harmless, found.lost_offsets) == (Absence.EMPTY, True, 0)
    assert said_by_check(data)[:2] == (set(), set())
    (data / ".kafka_cleanshutdown").unlink()
    (found,) = absent(data)
    assert (found.absence, found.is_certain) == (Absence.LOST, True)
