"""A dead cluster of three nodes whose leaders lost the ends of their files is recovered as a whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.disk.disk import Disk
from engine.log.log_directory import open_source
from engine.rebuild.errors import RebuildFailedError, RebuildRefusedError
from engine.rebuild.target.manifest import compare, read_manifest
from engine.recover import recovering
from engine.recover.coordinators.former_topics import FormerTopics
from engine.recover.errors import RecoverRefusedError
from engine.recover.recovering import recover
from engine.replay.cluster import ClusterReplay
from tests.engine.recover.dead_clusters import NODES, hashes, partition_in, report_of, unpacked

SUMS = {"partitions": 5, "records": 1220, "lost": 0, "withoutCopy": 0, "aside": 0}


@pytest.fixture
def dead(tmp_path: Path) -> list[Path]:
    return unpacked(tmp_path / "dead")


def test_every_replica_has_the_same_log_and_a_manifest(dead: list[Path], tmp_path: Path) -> None:
    before = hashes(dead)
    target = tmp_path / "target"
    report = report_of(dead, target, jobs=2)
    assert SUMS.items() <= report["totals"].items()
    assert list(compare(str(target), read_manifest(str(target)))) == []
    assert hashes(dead) == before, "the sources are untouched"
    for name in ("orders-0", "payments-0", "__consumer_offsets-0"):
        copies = {
            tuple(
                (path.name, path.read_bytes())
                for path in sorted((target / f"node-{node}/data" / name).iterdir())
            )
            for node in NODES
        }
        assert len(copies) == 1, name


def test_a_plan_says_the_same_and_writes_nothing(dead: list[Path], tmp_path: Path) -> None:
    planned = report_of(dead)
    assert {path.name for path in tmp_path.iterdir()} == {"dead"}
    written = report_of(dead, tmp_path / "target")
    assert planned["partitions"] == written["partitions"]
    assert planned["totals"] == written["totals"]


def test_the_number_of_processes_changes_nothing(dead: list[Path], tmp_path: Path) -> None:
    one = report_of(dead, tmp_path / "one", jobs=1)
    three = report_of(dead, tmp_path / "three", jobs=3)
    assert one["partitions"] == three["partitions"]


def test_the_open_transaction_is_aborted_or_left(dead: list[Path], tmp_path: Path) -> None:
    report = report_of(dead, tmp_path / "closed")
    [ended] = report["transactions"]
    assert (ended["transactionalId"], ended["end"]) == ("billing-1", "ABORT")
    assert _open(tmp_path / "closed") == 0
    report = report_of(dead, tmp_path / "left", leaves_open=True)
    assert report["transactions"] == []
    [left] = report["leftOpen"]
    assert list(left["markers"]) == ["payments-0"]
    assert _open(tmp_path / "left") == 1


def _open(target: Path) -> int:
    source = open_source(str(target / "node-1/data/payments-0"))
    try:
        [log] = source.partitions().values()
        return len(log.view().open_transactions)
    finally:
        source.close()


def test_epochs_and_producer_ids_are_above_all_that_was_seen(
    dead: list[Path], tmp_path: Path
) -> None:
    report = report_of(dead, tmp_path / "target")
    assert report["nextProducerId"] > 1000
    source = open_source(str(tmp_path / "target/node-2/data"))
    try:
        image = ClusterReplay(source).image()
    finally:
        source.close()
    given = image.table("quorum")["producerIds"].facts["nextProducerId"]
    assert given == report["nextProducerId"]
    for each in report["partitions"]:
        topic, _, number = each["partition"].rpartition("-")
        row = image.partitions_of(image.topics[topic].facts["topicId"])[int(number)]
        assert row.facts["leaderEpoch"] == each["leaderEpoch"]
        assert each["leaderEpoch"] > max(copy["epoch"] for copy in each["copies"])


def test_the_largest_log_start_of_the_copies_counts(dead: list[Path], tmp_path: Path) -> None:
    (dead[2] / "log-start-offset-checkpoint").write_text("0\n1\norders 1 100\n")
    report = report_of(dead, tmp_path / "target")
    assert partition_in(report, "orders-1")["logStartOffset"] == 100
    source = open_source(str(tmp_path / "target/node-1/data"))
    try:
        assert source.partitions()["orders-1"].view().log_start_offset == 100
    finally:
        source.close()


def test_damage_in_one_copy_is_filled_from_another(dead: list[Path], tmp_path: Path) -> None:
    for at, log_dir in enumerate(dead):
        path = log_dir / "orders-1/00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[2000 + 4000 * at] ^= 1
        path.write_bytes(data)
    report = report_of(dead, tmp_path / "target")
    assert report["totals"]["records"] == SUMS["records"]
    assert report["totals"]["lost"] == 0


def test_a_partition_of_which_no_disk_has_a_copy_is_told(dead: list[Path], tmp_path: Path) -> None:
    for log_dir in dead:
        shutil.rmtree(log_dir / "orders-1")
    report = report_of(dead, tmp_path / "target")
    assert report["totals"]["withoutCopy"] == 1
    assert partition_in(report, "orders-1")["noLog"] == "no disk holds a copy"
    assert report["losesSomething"]


def test_offsets_of_groups_past_the_end_are_moved_to_it(dead: list[Path], tmp_path: Path) -> None:
    for log_dir in dead:
        path = log_dir / "orders-1/00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:5000])
        (log_dir / "replication-offset-checkpoint").unlink()
        (log_dir / "recovery-point-offset-checkpoint").unlink()
    report = report_of(dead, tmp_path / "target")
    end = partition_in(report, "orders-1")["logEndOffset"]
    [moved] = report["movedOffsets"]
    assert (moved["group"], moved["partition"], moved["to"]) == ("billing", "orders-1", end)
    assert moved["from"] > end
    assert report["emptiedGroups"] == ["billing"]


def test_folders_that_a_broker_set_aside_are_copies(dead: list[Path], tmp_path: Path) -> None:
    # A start with other metadata renames them; the records of the best copy are in one.
    for log_dir in dead:
        name = f"orders-0.{'0' * 32}-stray"
        (log_dir / "orders-0").rename(log_dir / name)
    report = report_of(dead, tmp_path / "target")
    assert report["totals"]["records"] == SUMS["records"]


def test_an_older_copy_of_a_node_adds_nothing_and_takes_nothing(
    dead: list[Path], tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(dead[1], older)
    for path in older.glob("*-*/*.log"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    report = report_of([older, *dead], tmp_path / "target")
    assert SUMS.items() <= report["totals"].items()
    assert [each["id"] for each in report["nodes"]] == list(NODES)
    assert len(partition_in(report, "orders-0")["copies"]) == 4


def test_a_node_may_have_several_log_dirs(dead: list[Path], tmp_path: Path) -> None:
    second = dead[0].parent / "more"
    second.mkdir()
    text = (dead[0] / "meta.properties").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("directory.id")]
    lines.append("directory.id=AAAAAAAAAAAAAAAAAAAAIQ")
    (second / "meta.properties").write_text("\n".join(lines) + "\n")
    (dead[0] / "orders-0").rename(second / "orders-0")
    report = report_of([*dead, second], tmp_path / "target")
    assert SUMS.items() <= report["totals"].items()
    assert [each["logDirs"] for each in report["nodes"]] == [["data", "more"], ["data"], ["data"]]
    places = {path.parent.name for path in (tmp_path / "target/node-1").glob("*/*-[0-9]")}
    assert places == {"data", "more"}


def test_fewer_replicas_are_written_if_they_are_asked_for(dead: list[Path], tmp_path: Path) -> None:
    report = report_of(dead, tmp_path / "target", replication=2, fits_min_isr=True)
    assert {len(each["replicas"]) for each in report["partitions"]} == {2}
    folders = list((tmp_path / "target").glob("node-*/data/orders-*"))
    assert len(folders) == 4


def test_a_cluster_becomes_one_node(dead: list[Path], tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(
        '[[node]]\nid = 9\nlisteners = { PLAINTEXT = "h:9092", CONTROLLER = "h:9093" }\n'
        'log_dirs = ["a", "b"]\n'
    )
    report = report_of(dead, tmp_path / "target", nodes=str(nodes), fits_min_isr=True)
    assert {tuple(each["replicas"]) for each in report["partitions"]} == {(9,)}
    used = {path.parent.name for path in (tmp_path / "target/node-9").glob("*/orders-*")}
    assert used == {"a", "b"}, "the partitions are spread over the log dirs"


def test_folders_alone_are_enough(dead: list[Path], tmp_path: Path) -> None:
    for log_dir in dead:
        shutil.rmtree(log_dir / "__cluster_metadata-0")
    nodes = tmp_path / "nodes.toml"
    nodes.write_text(
        "".join(
            f"[[node]]\nid = {node}\n"
            f'listeners = {{ PLAINTEXT = "h{node}:1", CONTROLLER = "h{node}:2" }}\n'
            for node in NODES
        )
    )
    report = report_of(dead, tmp_path / "target", nodes=str(nodes))
    assert report["totals"]["records"] == SUMS["records"]
    assert report["metadata"]["unknown"]


class _FullDisk(Disk):
    """A disk that gets full while partitions are copied."""

    def copy_new(self, source: object, target: object) -> None:
        raise OSError(28, "No space left on device")


def test_after_a_failure_nothing_is_left(dead: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        recover([str(path) for path in dead], str(tmp_path / "target"), disk=_FullDisk())
    assert {path.name for path in tmp_path.iterdir()} == {"dead"}


def test_a_failed_self_check_puts_nothing_in_place(
    dead: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = recovering.write_cluster
    monkeypatch.setattr(
        recovering,
        "write_cluster",
        lambda target, metadata, nodes, placements, _, options: write(
            target, metadata, nodes, placements, 1, options
        ),
    )
    with pytest.raises(RebuildFailedError, match="self-check failed: the next producer id"):
        report_of(dead, tmp_path / "target")
    assert {path.name for path in tmp_path.iterdir()} == {"dead"}


def test_a_target_that_exists_and_other_clusters_are_refused(
    dead: list[Path], tmp_path: Path
) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target/file").touch()
    with pytest.raises(RebuildRefusedError, match="already exists"):
        report_of(dead, tmp_path / "target")
    text = (dead[0] / "meta.properties").read_text()
    (dead[0] / "meta.properties").write_text(text.replace("cluster.id=E", "cluster.id=F"))
    with pytest.raises(RecoverRefusedError, match="of the cluster"):
        report_of(dead)


def test_the_offset_of_a_deleted_topic_of_the_same_name_is_no_loss(
    dead: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for log_dir in dead:
        path = log_dir / "orders-1/00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:5000])
        (log_dir / "replication-offset-checkpoint").unlink()
        (log_dir / "recovery-point-offset-checkpoint").unlink()
    assert report_of(dead)["totals"]["lost"] > 0
    why = "it was committed before the topic was made"
    monkeypatch.setattr(FormerTopics, "why", lambda *_: why)
    report = report_of(dead, tmp_path / "target")
    assert report["movedOffsets"] == []
    assert report["totals"]["lost"] == 0
    assert {(each["group"], each["evidence"]) for each in report["formerOffsets"]} == {
        ("billing", why)
    }
