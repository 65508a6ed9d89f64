"""The end of a log as the files beside its records prove it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.log.view.proven_end import lost_end, orphan_indexes, proven_end
from tests.builders import offset_index, producer_snapshot, time_index
from tests.engine.log.folders import LogWriter


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    """A log with offsets 0 to 4, in leader epoch 2."""
    made = LogWriter(tmp_path)
    for _ in range(5):
        made.append_records(b"v", leader_epoch=2)
    return made


def end_of(writer: LogWriter) -> tuple[int, list[str]]:
    view = writer.view()
    found = proven_end(view, view.log_end_offset)
    return found.offset, [proof.file for proof in found.proofs]


def state(writer: LogWriter, **offsets: int) -> None:
    """Write the offsets that files state; `epochs` is the start of leader epoch 3."""
    for name, offset in offsets.items():
        if name == "snapshot":
            (writer.folder / f"{offset:020}.snapshot").write_bytes(producer_snapshot([]))
        elif name == "epoch":
            text = f"0\n2\n2 0\n3 {offset}\n"
            (writer.folder / "leader-epoch-checkpoint").write_text(text)
        else:
            file = {
                "recovery": "recovery-point-offset-checkpoint",
                "watermark": "replication-offset-checkpoint",
                "cleaned": "cleaner-offset-checkpoint",
            }[name]
            writer.checkpoint(file, offset)


def stop_cleanly(writer: LogWriter) -> None:
    (writer.log_dir / ".kafka_cleanshutdown").touch()


RECOVERY, WATERMARK = "recovery-point-offset-checkpoint", "replication-offset-checkpoint"
EPOCHS, CLEANED = "leader-epoch-checkpoint", "cleaner-offset-checkpoint"


# Files that state an end


def test_files_that_state_no_more_than_the_records_prove_no_loss(writer: LogWriter) -> None:
    assert end_of(writer) == (5, [])
    state(writer, recovery=5, watermark=5, cleaned=5, snapshot=5, epoch=5)
    assert end_of(writer) == (5, [])
    assert lost_end(writer.view()) is None


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("recovery", RECOVERY),
        ("watermark", WATERMARK),
        ("cleaned", CLEANED),
        ("epoch", EPOCHS),
        ("snapshot", f"{6:020}.snapshot"),
    ],
)
def test_each_file_that_states_more_is_a_proof(writer: LogWriter, name: str, file: str) -> None:
    state(writer, **{name: 6})
    assert end_of(writer) == (6, [file])
    lost = lost_end(writer.view())
    assert lost is not None
    assert (lost.first, lost.end.offset, lost.file) == (5, 6, writer.records_file.name)
    assert lost.sentence.startswith("offset 5 is gone: the records files end at offset 5, and ")


def test_the_highest_proof_is_the_end_and_comes_first(writer: LogWriter) -> None:
    state(writer, recovery=7, watermark=6, epoch=9)
    assert end_of(writer) == (9, [EPOCHS, RECOVERY, WATERMARK])
    lost = lost_end(writer.view())
    assert lost is not None
    assert lost.sentence == (
        "offsets 5 to 8 (4) are gone: the records files end at offset 5, and leader epoch 3"
        " begins at offset 9, the recovery point is 7, the high watermark is 6"
    )


@pytest.mark.parametrize(
    ("stated", "end"),
    [
        ({"recovery": 8, "watermark": 8, "snapshot": 20}, 8),
        ({"recovery": 8, "watermark": 20}, 20),
        ({"recovery": 20, "watermark": 5}, 5),
        ({"recovery": 8, "watermark": 5, "snapshot": 8}, 8),
        ({"recovery": 8, "watermark": 8, "epoch": 30}, 8),
        ({"recovery": 8, "epoch": 8}, 8),
        ({"recovery": 3, "watermark": 3, "snapshot": 9}, 9),
    ],
)
def test_after_a_clean_stop_the_end_that_most_files_state_counts(
    writer: LogWriter, stated: dict[str, int], end: int
) -> None:
    """In a tie it is the higher one; an end below the records is none."""
    state(writer, **stated)
    stop_cleanly(writer)
    found, proofs = end_of(writer)
    assert found == end
    assert bool(proofs) is (end > 5)
    (writer.log_dir / ".kafka_cleanshutdown").unlink()
    assert end_of(writer)[0] == max(stated.values())


# Leader epochs


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("0\n0\n", 5),
        ("0\n1\n3 5\n", 5),
        ("0\n1\n3 6\n", 6),
        ("0\n1\n2 6\n", 5),  # a batch of that epoch is below its start
        ("0\n1\n1 6\n", 5),
        ("0\n2\n3 6\n4 6\n", 5),  # starts that do not ascend
        ("0\n2\n4 6\n3 7\n", 5),
        ("0\n2\n3 6\n3 7\n", 5),
        ("rubbish", 5),
    ],
)
def test_the_start_of_the_last_leader_epoch_is_a_proof_where_it_can_be_right(
    writer: LogWriter, text: str, end: int
) -> None:
    (writer.folder / EPOCHS).write_text(text)
    assert end_of(writer)[0] == end


def test_a_leader_epoch_that_the_last_record_has_proves_nothing_behind_it(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    writer.append_records(b"v", leader_epoch=2)
    writer.append_records(b"v", leader_epoch=3)
    (writer.folder / EPOCHS).write_text("0\n2\n2 0\n3 6\n")
    assert end_of(writer) == (2, [])


def test_the_first_leader_epoch_of_a_log_without_records_is_a_proof(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    (writer.folder / EPOCHS).write_text("0\n1\n0 4\n")
    assert end_of(writer) == (4, [EPOCHS])


def test_while_a_broker_runs_a_leader_epoch_may_be_ahead_of_its_first_batch(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    state(writer, epoch=6)
    view = writer.view()
    assert proven_end(view, 5).offset == 6
    monkeypatch.setattr(type(view), "live", property(lambda _: True))
    assert proven_end(view, 5).offset == 5


# Indexes without a records file


def orphan(writer: LogWriter, name: str, data: bytes) -> None:
    (writer.folder / name).write_bytes(data)


def test_an_index_without_its_records_file_names_a_segment_and_its_last_entry(
    writer: LogWriter,
) -> None:
    name = f"{8:020}.index"
    orphan(writer, name, b"")
    assert end_of(writer) == (8, [name])
    orphan(writer, name, offset_index([(10, 0), (12, 90)], 8))
    assert end_of(writer) == (13, [name])
    times = f"{8:020}.timeindex"
    orphan(writer, times, time_index([(1, 9), (2, 15)], 8))
    assert end_of(writer) == (16, [times])
    lost = lost_end(writer.view())
    assert lost is not None
    assert lost.sentence == (
        "offsets 5 to 15 (11) are gone: the records files end at offset 5, and"
        f" {times} has an entry for offset 15 but no records file"
    )


@pytest.mark.parametrize(
    "data",
    [
        offset_index([(12, 0), (10, 90)], 8),
        offset_index([(10, 90), (12, 0)], 8),
        offset_index([(12, 0)], 8)[:-1],
        offset_index([(12, 0)], 8) + b"\0",
        bytes(16),
    ],
    ids=["offsets go back", "positions go back", "cut", "more than whole entries", "zeros"],
)
def test_an_index_that_is_out_of_order_proves_its_name_alone(
    writer: LogWriter, data: bytes
) -> None:
    name = f"{8:020}.index"
    orphan(writer, name, data)
    assert end_of(writer) == (8, [name])


def test_of_indexes_of_several_segments_the_last_counts(writer: LogWriter) -> None:
    for base in (6, 8, 7):
        orphan(writer, f"{base:020}.index", offset_index([(base + 9, 0)], base))
    assert list(orphan_indexes(writer.view().listing)) == [6, 7, 8]
    assert end_of(writer)[0] == 18


def test_an_index_of_a_segment_that_a_broker_deletes_proves_nothing(writer: LogWriter) -> None:
    orphan(writer, f"{8:020}.index", offset_index([(12, 0)], 8))
    orphan(writer, f"{8:020}.log.deleted", b"")
    assert end_of(writer) == (5, [])


def test_a_folder_with_the_name_of_an_index_is_none(writer: LogWriter) -> None:
    (writer.folder / f"{8:020}.index").mkdir()
    (writer.folder / f"{9:020}.index.deleted").touch()
    assert orphan_indexes(writer.view().listing) == {}
    assert end_of(writer) == (5, [])


def test_a_log_without_records_files_begins_where_its_indexes_or_epochs_do(
    writer: LogWriter,
) -> None:
    writer.records_file.unlink()
    state(writer, recovery=20)
    lost = lost_end(writer.view())
    assert lost is not None
    assert (lost.first, lost.file) == (0, "")
    orphan(writer, f"{12:020}.index", b"")
    lost = lost_end(writer.view())
    assert lost is not None
    assert (lost.first, lost.end.offset) == (12, 20)
    (writer.folder / EPOCHS).write_text("0\n2\n0 9\n1 14\n")
    lost = lost_end(writer.view())
    assert lost is not None
    assert lost.first == 9
    assert lost.sentence.startswith("offsets 9 to 19 (11) are gone: there is no records file, and ")


def test_one_records_file_alone_and_a_folder_set_aside_have_no_checkpoints(
    writer: LogWriter, tmp_path: Path
) -> None:
    state(writer, recovery=9, snapshot=9)
    alone = next(iter(open_source(str(writer.records_file)).partitions().values())).view()
    assert proven_end(alone, alone.log_end_offset) == (5, ())
    stray = tmp_path / f"topic-0.{'0' * 32}-stray"
    writer.folder.rename(stray)
    aside = open_source(str(tmp_path)).partitions()[stray.name].view()
    assert [proof.file for proof in proven_end(aside, 5).proofs] == [f"{9:020}.snapshot"]


# The metadata log, which no checkpoint names


QUORUM = (
    '{{"clusterId":"","leaderId":{},"leaderEpoch":{},"votedId":-1,"appliedOffset":0,'
    '"currentVoters":[{{"voterId":1}}],"data_version":0}}'
)


@pytest.fixture
def metadata(tmp_path: Path) -> LogWriter:
    """An empty metadata log."""
    return LogWriter(tmp_path, name="__cluster_metadata-0")


@pytest.mark.parametrize(
    ("leader", "epoch", "end"), [(1, 3, 1), (2, 1, 1), (-1, 3, 0), (1, 0, 0), (-1, 0, 0)]
)
def test_a_leader_proves_that_an_empty_metadata_log_had_a_record(
    metadata: LogWriter, leader: int, epoch: int, end: int
) -> None:
    LogWriter(metadata.folder.parent)  # another log: the node is past its first start
    (metadata.folder / "quorum-state").write_text(QUORUM.format(leader, epoch))
    assert end_of(metadata) == (end, ["quorum-state"] * end)
    metadata.records_file.unlink()
    assert end_of(metadata) == (end, ["quorum-state"] * end)


@pytest.mark.parametrize(
    ("leader", "epoch", "node", "end"),
    [(1, 1, 1, 0), (1, 2, 1, 1), (2, 1, 1, 0), (2, 9, 1, 0), (1, 1, None, 0), (2, 9, None, 1)],
    ids=["first-election", "second-election", "follows", "follows-late", "unknown", "unknown-late"],
)
def test_a_node_killed_at_its_first_start_has_lost_no_metadata(
    metadata: LogWriter, leader: int, epoch: int, node: int | None, end: int
) -> None:
    log_dir = metadata.folder.parent
    (metadata.folder / "quorum-state").write_text(QUORUM.format(leader, epoch))
    if node is not None:
        (log_dir / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    assert end_of(metadata) == (end, ["quorum-state"] * end)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("recovery-point-offset-checkpoint", "0\n1\norders 0 5\n"),
        ("replication-offset-checkpoint", "0\n1\norders 0 5\n"),
        ("__cluster_metadata-0/leader-epoch-checkpoint", "0\n2\n1 0\n2 7\n"),
    ],
)
def test_what_a_first_start_does_not_write_proves_that_there_was_metadata(
    metadata: LogWriter, name: str, text: str
) -> None:
    (metadata.folder / "quorum-state").write_text(QUORUM.format(1, 1))
    (metadata.folder.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    assert end_of(metadata) == (0, [])
    (metadata.folder.parent / name).write_text(text)
    assert end_of(metadata) == (1, ["quorum-state"])


def test_a_leader_proves_no_loss_beside_records_or_a_snapshot(metadata: LogWriter) -> None:
    (metadata.folder / "quorum-state").write_text(QUORUM.format(1, 3))
    (metadata.folder / f"{0:020}-{0:010}.checkpoint").write_bytes(b"")  # the format's
    assert end_of(metadata)[0] == 1
    snapshot = metadata.folder / f"{9:020}-{1:010}.checkpoint"
    snapshot.write_bytes(b"")
    assert end_of(metadata) == (9, [])
    snapshot.unlink()
    metadata.append_records(b"v")
    assert end_of(metadata) == (1, [])


@pytest.mark.parametrize("text", ["", "[]", "{}", QUORUM[:40]])
def test_a_damaged_quorum_state_proves_nothing(metadata: LogWriter, text: str) -> None:
    (metadata.folder / "quorum-state").write_text(text)
    assert end_of(metadata) == (0, [])
