"""The rebuilt log ends where anything in the source proves that the log ended: no offset is given twice."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from engine.log.log_directory import open_source
from engine.log.view.log_bound import LogBound
from engine.rebuild.options import Mode, RebuildOptions
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.rebuilt import Rebuilt
from engine.units import EpochEntry, Offset
from tests.engine.rebuild.made_logs import MadeLog, facts_of, holes, make_log, offsets_of


def last_gone(made: MadeLog) -> Offset:
    made.path(made.bases[-1]).unlink()
    return made.bases[-1]


def all_gone(made: MadeLog) -> Offset:
    for base in made.bases:
        made.path(base).unlink()
    return 0


def last_batch_torn(made: MadeLog) -> Offset:
    path = made.path(made.bases[-1])
    path.write_bytes(path.read_bytes()[:-3])
    return offsets_of(made.batches[-1][2]).start


LOSSES = [last_gone, all_gone, last_batch_torn]


def log_that_came_to_its_end(tmp_path: Path, name: str = "source") -> MadeLog:
    made = make_log(tmp_path / name, Random(3), segments=4, transactions=False)
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (made.log_dir / checkpoint).write_text(f"0\n1\norders 0 {made.next_offset}\n")
    return made


def made_of(tmp_path: Path, **options: object) -> Rebuilt:
    asked = RebuildOptions(**options)  # type: ignore[arg-type]
    return rebuild(str(tmp_path / "source"), str(tmp_path / "target"), asked)


def bounds_of(log_dir: Path) -> tuple[Offset, Offset]:
    source = open_source(str(log_dir))
    try:
        view = source.partitions()["orders-0"].view()
        return view.log_start_offset, view.log_end_offset
    finally:
        source.close()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lose", LOSSES)
def test_the_end_that_the_checkpoints_prove_is_held_and_what_is_missing_is_listed(
    tmp_path: Path, lose: Callable[[MadeLog], Offset], clean: bool
) -> None:
    made = log_that_came_to_its_end(tmp_path)
    if clean:
        (made.log_dir / ".kafka_cleanshutdown").touch()
    expected = facts_of(made.log_dir)
    first = lose(made)
    result = made_of(tmp_path, allow_empty=True)
    [report] = result.partitions
    assert result.lost_something
    assert report["logEndOffset"] == made.next_offset
    assert holes(report) == [(first, made.next_offset)]
    assert f"the recovery point is {made.next_offset}" in " ".join(report["notes"])
    assert bounds_of(tmp_path / "target") == (0, made.next_offset)
    assert facts_of(tmp_path / "target") == {
        offset: each for offset, each in expected.items() if offset < first
    }


def test_the_name_of_a_producer_snapshot_proves_the_end(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(3), segments=2, transactions=False)
    (made.folder / f"{made.next_offset:020}.snapshot").touch()
    first = last_gone(made)
    [report] = made_of(tmp_path).partitions
    assert report["logEndOffset"] == made.next_offset
    assert holes(report) == [(first, made.next_offset)]


def test_without_any_proof_the_log_ends_with_its_last_batch(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(3), segments=2, transactions=False)
    first = last_batch_torn(made)
    [report] = made_of(tmp_path).partitions
    assert report["logEndOffset"] == first


def test_an_end_that_the_files_of_a_clean_stop_contradict_is_not_believed(tmp_path: Path) -> None:
    made = log_that_came_to_its_end(tmp_path)
    (made.log_dir / ".kafka_cleanshutdown").touch()
    (made.log_dir / "replication-offset-checkpoint").write_text("0\n1\norders 0 9999\n")
    result = made_of(tmp_path)
    assert result.partitions[0]["logEndOffset"] == made.next_offset
    assert not result.lost_something


def test_leader_epochs_that_began_in_what_is_lost_are_kept(tmp_path: Path) -> None:
    made = log_that_came_to_its_end(tmp_path)
    first = last_gone(made)
    change = made.next_offset - 1
    lines = "".join(f"{epoch} {at}\n" for epoch, at in {**made.epochs, 90: change}.items())
    (made.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(made.epochs) + 1}\n{lines}")
    made_of(tmp_path)
    source = open_source(str(tmp_path / "target"))
    try:
        view = source.partitions()["orders-0"].view()
        assert view.leader_epochs.latest == EpochEntry(90, change)
        assert first < change < view.log_end_offset
    finally:
        source.close()


def test_a_replica_gives_what_is_lost_and_nothing_is_missing(tmp_path: Path) -> None:
    made = log_that_came_to_its_end(tmp_path)
    other = made.copied_to(tmp_path / "other")
    last_gone(made)
    result = rebuild(str(made.log_dir), str(tmp_path / "target"), merge=[str(other.log_dir)])
    assert not result.lost_something
    assert facts_of(tmp_path / "target") == facts_of(other.log_dir)


def test_a_bound_before_the_loss_needs_nothing_held(tmp_path: Path) -> None:
    made = log_that_came_to_its_end(tmp_path)
    first = last_gone(made)
    result = made_of(tmp_path, stop=LogBound(offset=first))
    assert not result.lost_something
    assert result.partitions[0]["notes"] == []
    assert bounds_of(tmp_path / "target") == (0, first)


def test_the_end_of_a_new_topic_says_nothing_of_a_deleted_ones_folder(tmp_path: Path) -> None:
    made = log_that_came_to_its_end(tmp_path)
    (made.log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 5000\n")
    (made.log_dir / "replication-offset-checkpoint").unlink()
    folder = made.folder.rename(made.log_dir / "orders-0.0123456789abcdef-delete")
    result = made_of(tmp_path, partitions=(folder.name,))
    assert result.partitions[0]["logEndOffset"] == made.next_offset
    assert not result.lost_something


def test_as_a_broker_an_end_before_what_the_checkpoints_prove_is_a_loss(tmp_path: Path) -> None:
    made = log_that_came_to_its_end(tmp_path)
    for base in made.bases:  # a broker recovers a segment without them before all others
        made.path(base).with_suffix(".index").touch()
        made.path(base).with_suffix(".timeindex").touch()
    first = last_batch_torn(made)
    result = made_of(tmp_path, mode=Mode.BROKER, clean=False)
    [report] = result.partitions
    assert result.lost_something
    assert (report["logEndOffsetBefore"], report["logEndOffset"]) == (made.next_offset, first)


def test_a_leader_epoch_alone_holds_the_end(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(3), segments=4, transactions=False)
    first = last_gone(made)
    change = made.next_offset - 1
    lines = "".join(f"{epoch} {at}\n" for epoch, at in {**made.epochs, 90: change}.items())
    (made.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(made.epochs) + 1}\n{lines}")
    [report] = made_of(tmp_path).partitions
    assert report["logEndOffset"] == change
    assert holes(report) == [(first, change)]


def test_the_entries_of_an_index_without_its_records_file_hold_the_end(tmp_path: Path) -> None:
    made = make_log(tmp_path / "source", Random(3), segments=4, transactions=False)
    first = last_gone(made)
    index = made.path(first).with_suffix(".index")
    index.write_bytes(struct.pack(">iiii", 3, 100, 17, 5000) + bytes(8 * 100))
    [report] = made_of(tmp_path).partitions
    assert report["logEndOffset"] == first + 18
    assert holes(report) == [(first, first + 18)]
