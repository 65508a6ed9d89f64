"""Open transactions are ended as any disk shows, and never torn."""

from __future__ import annotations

import pytest

from engine.recover.coordinators.decisions import Decision, decide
from engine.recover.coordinators.transaction_states import Status, TransactionalState
from engine.recover.partitions.survey import OpenData, PartitionSurvey, SeenMarker
from engine.units import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
PRODUCER = 91


def surveyed(
    partition: TopicPartition,
    *,
    open_epoch: int | None = None,
    at: int = 100,
    markers: list[tuple[int, bool, int, int]] | None = None,
) -> PartitionSurvey:
    """A partition with open data, and with markers: epoch, whether it commits, time, epoch of the data."""
    found = PartitionSurvey(partition)
    if open_epoch is not None:
        found.open = [OpenData(PRODUCER, open_epoch, 50, at, -1)]
        found.data_epochs = {PRODUCER: {open_epoch}}
    for offset, (epoch, commits, time, data_epoch) in enumerate(markers or ()):
        found.markers.append(SeenMarker(PRODUCER, epoch, commits, 3, offset, time, data_epoch))
        found.data_epochs.setdefault(PRODUCER, set()).add(data_epoch)
    return found


def state(
    status: Status,
    *,
    epoch: int,
    bumps: bool,
    partitions: tuple[TopicPartition, ...] = (A, B),
    started: int = 90,
) -> TransactionalState:
    return TransactionalState(
        "tid",
        0,
        7,
        PRODUCER,
        epoch,
        -1,
        status,
        frozenset(partitions),
        started,
        200,
        bumps,
        b"",
        b"",
    )


def only(surveys: list[PartitionSurvey], states: list[TransactionalState]) -> Decision:
    [found] = decide(surveys, states)
    return found


def test_an_ongoing_transaction_with_a_commit_marker_elsewhere_commits() -> None:
    # A coordinator that loads this aborts the rest: the record that says Prepare is lost.
    surveys = [surveyed(A, open_epoch=5), surveyed(B, markers=[(6, True, 120, 5)])]
    found = only(surveys, [state(Status.ONGOING, epoch=5, bumps=True)])
    assert (found.commits, found.marker_epoch, found.is_proven) == (True, 6, True)
    assert found.open == {A: 50}
    assert found.state is not None
    assert "b-0 has its COMMIT marker" in found.evidence


def test_a_marker_that_is_lost_in_one_partition_is_written_again() -> None:
    surveys = [surveyed(A, open_epoch=5), surveyed(B, markers=[(6, True, 120, 5)])]
    found = only(surveys, [state(Status.COMPLETE_COMMIT, epoch=6, bumps=True, partitions=())])
    assert (found.commits, found.marker_epoch, found.state) == (True, 6, None)


@pytest.mark.parametrize("bumps", [False, True])
@pytest.mark.parametrize(
    ("status", "commits"), [(Status.PREPARE_COMMIT, True), (Status.PREPARE_ABORT, False)]
)
def test_what_the_coordinator_decided_counts(status: Status, commits: bool, bumps: bool) -> None:
    surveys = [surveyed(A, open_epoch=5), surveyed(B, open_epoch=5)]
    found = only(surveys, [state(status, epoch=6 if bumps else 5, bumps=bumps)])
    assert (found.commits, found.is_proven) == (commits, True)
    assert set(found.open) == {A, B}
    assert found.marker_epoch == (6 if bumps else 5)


def test_without_any_evidence_it_aborts_and_is_not_proven() -> None:
    found = only([surveyed(A, open_epoch=5)], [])
    assert (found.commits, found.is_proven, found.transactional_id) == (False, False, None)


def test_an_earlier_transaction_of_a_producer_that_keeps_its_epoch_proves_nothing() -> None:
    surveys = [surveyed(A, open_epoch=5, at=100), surveyed(B, markers=[(5, True, 80, 5)])]
    found = only(surveys, [state(Status.ONGOING, epoch=5, bumps=False, started=90)])
    assert (found.commits, found.is_proven) == (False, False)


def test_the_first_end_after_the_data_counts_where_the_coordinator_is_lost() -> None:
    ends = [(5, True, 110, 5), (5, False, 300, 5)]
    surveys = [surveyed(A, open_epoch=5, at=100), surveyed(B, markers=ends)]
    assert only(surveys, []).commits
    surveys = [surveyed(A, open_epoch=5, at=200), surveyed(B, markers=ends)]
    assert not only(surveys, []).commits


def test_two_transactions_of_one_epoch_end_apart() -> None:
    first = state(Status.COMPLETE_COMMIT, epoch=5, bumps=False, partitions=(A,), started=10)
    second = state(Status.ONGOING, epoch=5, bumps=False, partitions=(B,), started=90)
    surveys = [surveyed(A, open_epoch=5, at=20), surveyed(B, open_epoch=5, at=95)]
    found = decide(surveys, [first, second])
    assert {tuple(each.open): each.commits for each in found} == {(A,): True, (B,): False}
    assert [each.state is not None for each in found if B in each.open] == [True]


def test_a_transaction_that_only_its_coordinator_has_open_is_completed() -> None:
    surveys = [surveyed(A, markers=[(6, True, 120, 5)]), surveyed(B, markers=[(6, True, 121, 5)])]
    found = only(surveys, [state(Status.ONGOING, epoch=5, bumps=True)])
    assert (found.commits, found.open) == (True, {})
    assert found.state is not None


def test_the_abort_of_a_fenced_producer_is_its_transactions_end() -> None:
    surveys = [surveyed(A, open_epoch=5), surveyed(B, markers=[(6, False, 120, 5)])]
    assert not only(surveys, [state(Status.COMPLETE_ABORT, epoch=6, bumps=False)]).commits


@pytest.mark.parametrize(("at", "commits"), [(30, True), (100, False)])
def test_data_without_an_earlier_end_is_not_of_a_transaction_before_it(
    at: int, commits: bool
) -> None:
    # The ends of older ones were deleted with records below the log start, or with an older topic.
    states = [
        state(Status.PREPARE_COMMIT, epoch=5, bumps=False, started=20),
        state(Status.COMPLETE_COMMIT, epoch=5, bumps=False, started=20, partitions=()),
        state(Status.ONGOING, epoch=5, bumps=False, started=90),
    ]
    decided = decide([surveyed(A, open_epoch=5, at=at)], states)
    assert [each.commits for each in decided if each.open] == [commits]


@pytest.mark.parametrize("is_ahead", [False, True])
def test_a_producers_clock_that_ran_ahead_commits_nothing(is_ahead: bool) -> None:
    states = [
        state(Status.COMPLETE_ABORT, epoch=5, bumps=False, started=20),
        state(Status.PREPARE_COMMIT, epoch=5, bumps=False, started=90),
    ]
    found = surveyed(A, open_epoch=5, at=100)
    found.clocks_ahead = {PRODUCER} if is_ahead else set()
    [decided] = [each for each in decide([found], states) if each.open]
    assert (decided.commits, decided.is_proven) == (not is_ahead, not is_ahead)
