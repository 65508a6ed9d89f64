"""What becomes of a log that was being moved to another log dir."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.plan.loading.broker_failure import Outcome
from engine.plan.log_plan import LogPlan
from engine.plan.start_plan import StartPlan
from tests.builders import batch, values
from tests.engine.plan.two_log_dirs import IDS, TOPIC, TwoLogDirs
from tests.replayed_bytes import write_partition

FUTURE = "orders-0.5ae9eb0e24cb4cee8f1d94dbc3ef1a5e-future"


class Case(TwoLogDirs):
    """Logs of orders-0 in two log dirs."""

    def log(self, log_dir: str, folder: str, records: int, topic_id: str = TOPIC) -> None:
        """A log with as many records."""
        path = write_partition(
            self.top / log_dir, folder, [batch(values("x"), offset) for offset in range(records)]
        ).parent
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")

    def plan(self) -> tuple[Outcome, str, dict[str, LogPlan]]:
        """The verdict, and the plan of each log by log dir and folder."""
        with StartPlan(self.paths) as start:
            logs = {
                f"{Path(log_dir.path).name}/{log.folder}": log
                for log_dir, log in start.logs()
                if "orders" in log.folder
            }
            return (*start.verdict(), logs)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_a_future_log_takes_the_place_of_the_log_and_what_it_does_not_have_is_lost(
    case: Case,
) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 40)
    case.assign(IDS["second"])
    outcome, _, logs = case.plan()
    assert outcome is Outcome.LOADS
    future, current = logs[f"second/{FUTURE}"], logs["first/orders-0"]
    assert future.renamed_to == "orders-0"
    assert "it becomes the log" in future.notes[-1]
    assert f"{case.top}/first/orders-0 is deleted" in future.notes[-1]
    assert (current.renamed_to or "").endswith("-delete")
    assert current.losses.records == 60
    assert current.losses.ranges == ((40, 100),)
    assert not future.is_harmless
    assert not current.is_harmless


def test_a_future_log_that_has_it_all_costs_nothing(case: Case) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 100)
    case.assign(IDS["second"])
    _, _, logs = case.plan()
    assert logs["first/orders-0"].losses.records == 0
    assert logs["first/orders-0"].losses.bytes == 0


def test_an_empty_future_log_costs_all_records(case: Case) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 0)
    case.assign(IDS["second"])
    assert case.plan()[2]["first/orders-0"].losses.records == 100


def test_a_future_log_alone_becomes_the_log(case: Case) -> None:
    case.log("second", FUTURE, 40)
    case.assign(IDS["second"])
    outcome, _, logs = case.plan()
    assert outcome is Outcome.LOADS
    assert logs[f"second/{FUTURE}"].renamed_to == "orders-0"
    assert "there is no other" in logs[f"second/{FUTURE}"].notes[-1]


def test_a_future_log_beside_its_own_log_stops_the_broker(case: Case) -> None:
    case.log("second", "orders-0", 100)
    case.log("second", FUTURE, 40)
    case.assign(IDS["second"])
    outcome, reason, logs = case.plan()
    assert outcome is Outcome.BROKER_STOPS
    assert f"{FUTURE} cannot become orders-0, which is in the same log dir" in reason
    assert logs[f"second/{FUTURE}"].java == "KafkaStorageException"
    assert logs["second/orders-0"].outcome is Outcome.LOADS


def test_a_move_goes_on_while_the_cluster_has_the_log_where_it_is(case: Case) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 40)
    case.assign(IDS["first"])
    outcome, _, logs = case.plan()
    assert outcome is Outcome.LOADS
    assert logs["first/orders-0"].renamed_to is None
    assert logs["first/orders-0"].losses.records == 0
    future = logs[f"second/{FUTURE}"]
    assert future.renamed_to is None
    assert "the broker continues the move" in future.notes[-1]


def test_a_future_log_elsewhere_and_without_a_log_follows_an_empty_one(case: Case) -> None:
    case.log("second", FUTURE, 40)
    case.assign(IDS["first"])
    future = case.plan()[2][f"second/{FUTURE}"]
    assert future.losses.ranges == ((0, 40),)
    assert not future.is_harmless
    assert "the broker creates an empty log of it" in future.notes[-1]


def test_without_the_metadata_log_it_cannot_be_told(case: Case) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 40)
    future = case.plan()[2][f"second/{FUTURE}"]
    assert future.is_at_risk
    assert not future.is_harmless
    assert "only the metadata log, which is missing here, has the assignment" in future.notes[-1]


def test_a_future_log_that_the_cluster_does_not_know_is_stray(case: Case) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 40, topic_id=IDS["first"])
    case.assign(IDS["second"])
    _, _, logs = case.plan()
    assert (logs[f"second/{FUTURE}"].renamed_to or "").endswith("-stray")
    assert logs["first/orders-0"].renamed_to is None


def test_a_future_log_in_a_log_dir_that_fails_stops_the_broker(case: Case) -> None:
    case.log("first", "orders-0", 100)
    case.log("second", FUTURE, 40)
    case.log("second", "other-0", 4)
    shutil.copy(
        case.top / "first/orders-0/partition.metadata",
        case.top / "second/other-0/partition.metadata",
    )
    (case.top / "second/other-0/leader-epoch-checkpoint").write_text("x\n")
    case.assign(IDS["second"])
    outcome, reason, _ = case.plan()
    assert outcome is Outcome.BROKER_STOPS
    assert "its log dir is offline" in reason
