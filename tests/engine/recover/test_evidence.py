"""The classes of offsets: committed, doubtful, not acknowledged, lost."""

from __future__ import annotations

from dataclasses import replace

from engine.recover.evidence import ClusterEvidence, OffsetClass, classes, cut_nodes
from engine.recover.partitions.survey import PartitionSurvey, SeenMarker, SurveyedCopy
from engine.units import TopicPartition
from engine.verdict.loss import Loss, LossKind

PARTITION = TopicPartition("orders", 0)
KNOWN = ClusterEvidence({}, {}, {PARTITION: (1, 2)}, {}, {1: 50, 2: 50}, 50, no_power_loss=True)


def copy(node: int, end: int, high_watermark: int) -> SurveyedCopy:
    return SurveyedCopy(f"n{node}", node, node, 0, 0, end, high_watermark, None, None, end)


def survey(*copies: SurveyedCopy) -> PartitionSurvey:
    return PartitionSurvey(PARTITION, copies=list(copies), end=max(each.end for each in copies))


def found(of: PartitionSurvey, known: ClusterEvidence = KNOWN) -> dict[str, tuple[int, int]]:
    return {each.kind.name: (each.first, each.next) for each in classes(of, known)}


LIVELY = survey(copy(1, 866, 825), copy(2, 864, 587), copy(3, 827, 579))


def test_an_acknowledgement_needs_all_replicas_in_sync() -> None:
    assert found(LIVELY) == {
        "COMMITTED": (0, 825),
        "DOUBTFUL": (825, 864),
        "NOT_ACKNOWLEDGED": (864, 866),
    }


def test_the_disk_of_a_replica_in_sync_that_is_not_there_leaves_all_in_doubt() -> None:
    known = replace(KNOWN, isr={PARTITION: (1, 4)})
    assert found(LIVELY, known) == {"COMMITTED": (0, 825), "DOUBTFUL": (825, 866)}


def test_a_cut_disk_proves_nothing_even_where_it_is_not_cut() -> None:
    other = replace(survey(copy(2, 10, 12)), partition=TopicPartition("pay", 0))
    cut = cut_nodes([LIVELY, other], KNOWN)
    assert list(cut) == [2]
    assert "ends at 10, and had offsets up to 12" in cut[2]
    assert "NOT_ACKNOWLEDGED" not in found(LIVELY, replace(KNOWN, cut=cut))


def test_a_disk_in_sync_without_a_committed_record_is_cut() -> None:
    known = replace(KNOWN, group_offsets={PARTITION: (865, "billing")})
    assert list(cut_nodes([LIVELY], known)) == [2]
    assert list(cut_nodes([LIVELY], KNOWN)) == []


def test_disks_that_may_have_lost_their_last_records_prove_nothing() -> None:
    assert "NOT_ACKNOWLEDGED" not in found(LIVELY, replace(KNOWN, no_power_loss=False))


def test_a_copy_of_an_earlier_moment_proves_nothing() -> None:
    known = replace(KNOWN, metadata_ends={1: 50, 2: 20})
    assert "NOT_ACKNOWLEDGED" not in found(LIVELY, known)


def test_what_a_group_committed_was_committed() -> None:
    known = replace(KNOWN, group_offsets={PARTITION: (850, "billing")})
    assert found(LIVELY, known)["COMMITTED"] == (0, 850)


def test_the_marker_of_a_completed_transaction_was_committed() -> None:
    marked = replace(LIVELY, markers=[SeenMarker(7, 3, True, 0, 840, 1000, 2)])
    assert found(marked)["COMMITTED"] == (0, 825)
    assert found(marked, replace(KNOWN, completed={(7, 3): 1000}))["COMMITTED"] == (0, 841)
    assert found(marked, replace(KNOWN, completed={(7, 3): 999}))["COMMITTED"] == (0, 825)


def test_a_replica_in_sync_that_ends_below_what_was_committed_is_not_of_the_last_moment() -> None:
    known = replace(KNOWN, group_offsets={PARTITION: (865, "billing")})
    assert found(LIVELY, known) == {"COMMITTED": (0, 865), "DOUBTFUL": (865, 866)}


def test_the_names_of_the_classes_are_those_of_the_report() -> None:
    assert [each.value for each in OffsetClass] == [
        "committed",
        "doubtful",
        "not acknowledged at acks=all",
        "lost",
    ]


def test_what_was_committed_past_every_end_is_lost() -> None:
    known = replace(KNOWN, group_offsets={PARTITION: (900, "billing")})
    ranges = [each for each in classes(LIVELY, known) if each.kind is OffsetClass.LOST]
    assert [(each.first, each.next) for each in ranges] == [(866, 900)]
    assert "group billing committed 900" in ranges[0].evidence
    end = Loss(
        partition="orders-0",
        kind=LossKind.END,
        first_offset=866,
        next_offset=880,
        file="",
        reason="the high watermark is 880",
    )
    told = replace(LIVELY, missing=[end])
    ranges = [each for each in classes(told, known) if each.kind is OffsetClass.LOST]
    assert [(each.first, each.next) for each in ranges] == [(866, 880), (880, 900)]
