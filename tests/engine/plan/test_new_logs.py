"""Where a broker makes partitions anew that have no folder, and what it reads there: as Kafka's start-up code does."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.checkpoint.base64_uuid import UNASSIGNED_DIRECTORY_ID, ZERO_UUID
from engine.files.file_names import RECOVERY_POINT_CHECKPOINT, REPLICATION_OFFSET_CHECKPOINT
from engine.plan.loading.broker_failure import Outcome
from engine.plan.start_plan import StartPlan
from engine.record.control_records import ControlRecordType
from tests.builders import batch, control_batch, values
from tests.engine.plan.two_log_dirs import IDS, TOPIC, TwoLogDirs
from tests.replayed_bytes import in_batches, metadata_record, snapshot_bytes, write_partition

ELSEWHERE = "b3RoZXIgcmVjb3JkcyBvQQ"
METADATA = "__cluster_metadata-0"
LEAVES_PARTITIONS_UNSERVED = "0\n-1\n"
TAKES_THE_LOG_DIR_OFFLINE = "1\n0\n"


class Node(TwoLogDirs):
    """A node that makes partitions anew."""

    def log(self, log_dir: str, folder: str) -> None:
        write_partition(self.top / log_dir, folder, [batch(values("x"), 0)])

    def checkpoint(self, log_dir: str, name: str, text: str) -> None:
        (self.top / log_dir / name).write_text(text)

    def plan(self) -> tuple[Outcome, list[str], list[str], str]:
        """The outcome, the partitions made anew, the log dirs at risk, and the reason."""
        with StartPlan(self.paths) as start:
            list(start.logs())
            outcome, reason = start.verdict()
            made = [each.missing.name for each in start.lost_folders]
            return (
                outcome,
                made,
                [Path(each.path).name for each in start.log_dirs if each.risks],
                reason,
            )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("logs", "chosen"),
    [
        ([], "first"),  # of two with as many logs the first
        (["first/b-0.0123456789abcdef0123456789abcdef-stray"], "first"),  # no log for a broker
        (["first/orders-1"], "first"),  # it becomes stray
    ],
)
def test_a_partition_without_a_log_dir_goes_to_the_first_with_the_fewest_logs(
    node: Node, logs: list[str], chosen: str
) -> None:
    node.assign(ELSEWHERE)
    for each in logs:
        node.log(*each.split("/"))
    for name in IDS:
        node.checkpoint(name, REPLICATION_OFFSET_CHECKPOINT, LEAVES_PARTITIONS_UNSERVED)
    assert node.plan()[:3] == (Outcome.LOADS, ["orders-0"], [chosen])


@pytest.mark.parametrize(
    ("directory", "is_made"),
    [
        (UNASSIGNED_DIRECTORY_ID, True),  # the broker is to choose
        (ZERO_UUID, False),  # it may be in the log dir that is offline
        (ELSEWHERE, False),
        (IDS["second"], False),
        (IDS["first"], True),
    ],
)
def test_nothing_is_made_anew_that_may_be_in_a_log_dir_that_is_offline(
    node: Node, directory: str, is_made: bool
) -> None:
    node.assign(directory)
    node.checkpoint("second", RECOVERY_POINT_CHECKPOINT, TAKES_THE_LOG_DIR_OFFLINE)
    outcome, made, _, _ = node.plan()
    assert outcome is Outcome.LOG_DIR_OFFLINE
    assert made == ["orders-0"] * is_made


def test_without_any_log_dir_nothing_is_made_anew(node: Node) -> None:
    node.assign(UNASSIGNED_DIRECTORY_ID)
    for name in IDS:
        node.checkpoint(name, RECOVERY_POINT_CHECKPOINT, TAKES_THE_LOG_DIR_OFFLINE)
    assert node.plan()[:2] == (Outcome.BROKER_STOPS, [])


def test_a_future_log_that_becomes_the_log_is_served(node: Node) -> None:
    node.assign(IDS["second"])
    folder = "orders-0.0123456789abcdef0123456789abcdef-future"
    node.log("second", folder)
    (node.top / "second" / folder / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {TOPIC}"
    )
    node.checkpoint("second", REPLICATION_OFFSET_CHECKPOINT, LEAVES_PARTITIONS_UNSERVED)
    assert node.plan()[:3] == (Outcome.LOADS, [], ["second"])
    node.checkpoint("second", REPLICATION_OFFSET_CHECKPOINT, TAKES_THE_LOG_DIR_OFFLINE)
    assert node.plan()[0] is Outcome.LOG_DIR_OFFLINE  # which comes too late to end the renaming


def registered(kind: str, **values: object) -> bytes:
    return in_batches([metadata_record(kind, **values)], 2)[0]


def test_a_node_that_registered_as_a_controller_alone_reads_no_checkpoint_of_logs(
    node: Node,
) -> None:
    controller = registered(
        "REGISTER_CONTROLLER_RECORD", controllerId=1, incarnationId=TOPIC, zkMigrationReady=False,
        endPoints=[], features=[],
    )  # fmt: skip
    node.assign(ELSEWHERE, controller)
    node.checkpoint("first", RECOVERY_POINT_CHECKPOINT, TAKES_THE_LOG_DIR_OFFLINE)
    (node.top / "first" / "lost+found").mkdir()
    assert node.plan()[0] is Outcome.LOADS
    node.log("second", "orders-0")  # only a broker makes these
    assert node.plan()[0] is Outcome.BROKER_STOPS


def test_a_control_record_of_transactions_in_the_metadata_log_ends_a_node(node: Node) -> None:
    node.assign(ELSEWHERE, control_batch(ControlRecordType.COMMIT, bytes(6), 2))
    outcome, _, _, reason = node.plan()
    assert outcome is Outcome.BROKER_STOPS
    assert "is a COMMIT" in reason


def damaged_at(data: bytes, number: int) -> bytes:
    """A snapshot with a wrong length of one of its batches; those behind it are good."""
    found, position = bytearray(data), 0
    for _ in range(number):
        position += 12 + int.from_bytes(found[position + 8 : position + 12], "big")
    found[position + 8] ^= 1
    return bytes(found)


def test_a_node_reads_a_snapshot_up_to_the_first_batch_that_it_does_not_have_to_its_end(
    node: Node,
) -> None:
    node.assign(ELSEWHERE)
    records = [metadata_record("FEATURE_LEVEL_RECORD", name="metadata.version", featureLevel=30)]
    for at in range(3):
        topic_id = f"dG9waWMgb2YgbG9ncyAw{at}A"
        records.append(metadata_record("TOPIC_RECORD", name=f"t{at}", topicId=topic_id))
    data = snapshot_bytes(records)
    snapshot = node.top / "first" / METADATA / f"{2:020}-{0:010}.checkpoint"
    snapshot.write_bytes(damaged_at(data, 3))
    with StartPlan([str(node.top / each) for each in IDS]) as start:
        assert start.cluster is not None
        assert list(start.cluster.topics) == ["t0"]
        list(start.logs())
        assert start.verdict()[0] is Outcome.LOADS
    snapshot.write_bytes(damaged_at(data, 1))
    outcome, _, _, reason = node.plan()
    assert outcome is Outcome.BROKER_STOPS
    assert reason.endswith("ends before the metadata.version")


def test_a_file_that_is_named_like_none_of_the_metadata_log_is_not_read(node: Node) -> None:
    node.assign(ELSEWHERE)
    (node.top / "first" / METADATA / "+2.log").write_bytes(b"\xc0" * 30)
    assert node.plan()[0] is Outcome.LOADS


def test_a_log_with_the_id_of_another_topic_is_not_made_anew_and_not_served(node: Node) -> None:
    other = "dG9waWMgb2YgbG9ncyAwMQ"
    node.assign(IDS["first"])
    state = {"isr": [1], "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, "partitionId": 0}
    records = [
        *(metadata_record("TOPIC_RECORD", name=name, topicId=topic_id)
          for name, topic_id in (("orders", TOPIC), ("other", other))),
        *(metadata_record("PARTITION_RECORD", version=1, topicId=topic_id, replicas=[1],
                          directories=[IDS["first"]], **state) for topic_id in (TOPIC, other)),
    ]  # fmt: skip
    write_partition(node.top / "first", METADATA, in_batches(records))
    for folder, topic_id in (("orders-0", other), ("other-0", other)):
        node.log("first", folder)
        (node.top / "first" / folder / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {topic_id}"
        )
    assert node.plan()[:3] == (Outcome.LOADS, [], ["first"])
