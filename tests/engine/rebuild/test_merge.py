"""Of several replicas the best copy of each batch is taken, and the newest leader decides where they differ."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.rebuild.assembly.lineage import believable, lineage, reference
from engine.rebuild.assembly.pieces import Piece
from engine.rebuild.rebuilding import rebuild
from engine.state.leader_epoch_cache import LeaderEpochCache
from engine.units import EpochEntry
from tests import builders
from tests.builders import Rec
from tests.engine.rebuild.made_logs import HITS, MadeLog, facts_of, holes, make_log, state_of

NO_TOPIC_ID = (
    "partition.metadata is missing and no topic id is known: without it a broker treats the log as"
    " stray; --topic-id orders=ID gives it one"
)
TOLD = ("noise", "zeroed", "cut_short", "removed", "duplicated", "swapped", "inserted")


def merged(tmp_path: Path, *others: str) -> dict[str, object]:
    names = [str(tmp_path / other) for other in others]
    [report] = rebuild(str(tmp_path / "source"), str(tmp_path / "target"), merge=names).partitions
    return report


@pytest.mark.parametrize("seed", range(10))
def test_what_is_damaged_in_one_replica_comes_from_another(tmp_path, seed):
    random = Random(seed)
    made = make_log(tmp_path / "source", random)
    expected = facts_of(tmp_path / "source")
    other = made.copied_to(tmp_path / "other")
    lost, _ = HITS[random.choice(TOLD)](made, random)
    while True:
        saved = {path: path.read_bytes() for path in other.folder.glob("*.log")}
        lost_there, _ = HITS[random.choice(TOLD)](other, random)
        if not lost & lost_there:
            break
        for path, data in saved.items():
            path.write_bytes(data)
    before = state_of(tmp_path)
    report = merged(tmp_path, "other")
    assert {path: each for path, each in state_of(tmp_path).items() if path in before and "target" not in path and not path.endswith("/.")} == {
        path: each for path, each in before.items() if not path.endswith("/.")
    }  # fmt: skip
    assert report["losses"] == []
    assert facts_of(tmp_path / "target") == expected


def text(offset: int, epoch: int, what: str, count: int = 5) -> bytes:
    return builders.batch(
        [Rec(f"{what} {offset + at}".encode()) for at in range(count)], offset, leader_epoch=epoch
    )


def write(
    log_dir: Path, batches: list[bytes], epochs: list[tuple[int, int]] | None = None
) -> MadeLog:
    made = MadeLog(log_dir)
    made.folder.mkdir(parents=True)
    made.path(0).write_bytes(b"".join(batches))
    if epochs is not None:
        lines = "".join(f"{epoch} {offset}\n" for epoch, offset in epochs)
        (made.folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs)}\n{lines}")
    return made


def values(log_dir: Path) -> list[bytes | None]:
    return [each.value for each in facts_of(log_dir).values()]


@pytest.mark.parametrize("newest", ["source", "other"])
def test_the_newest_leader_decides_where_replicas_differ(tmp_path, newest):
    """The old leader wrote 20 to 59 to itself alone; the new one began its epoch at 20."""
    shared = [text(offset, 0, "shared") for offset in range(0, 20, 5)]
    old = [*shared, *(text(offset, 0, "old") for offset in range(20, 60, 5))]
    new = [*shared, *(text(offset, 1, "new") for offset in range(20, 40, 5))]
    older = "other" if newest == "source" else "source"
    write(tmp_path / newest, new, [(0, 0), (1, 20)])
    write(tmp_path / older, old, [(0, 0)])
    report = merged(tmp_path, "other")
    assert values(tmp_path / "target") == values(tmp_path / newest)
    [diverged] = [each for each in report["dropped"] if each["kind"] == "diverged"]
    assert (diverged["firstOffset"], diverged["lastOffset"]) == (20, 59)


def test_a_hole_is_not_filled_with_what_another_leader_wrote(tmp_path):
    """Only the leader epochs' checkpoint tells that the lost batch was not of the other replica's leader."""
    shared = [text(offset, 0, "shared") for offset in range(0, 20, 5)]
    truth = [*shared, text(20, 0, "new"), text(25, 2, "new"), text(30, 2, "new")]
    damaged = truth.copy()
    damaged[4] = damaged[4][:-1] + b"?"
    other = [*shared, text(20, 1, "old"), text(25, 1, "old")]
    write(tmp_path / "source", damaged, [(0, 0), (2, 25)])
    write(tmp_path / "other", other, [(0, 0), (1, 20)])
    report = merged(tmp_path, "other")
    assert holes(report) == [(20, 25)]
    assert b"old 20" not in values(tmp_path / "target")


def test_a_damaged_epoch_at_the_end_does_not_make_a_replica_the_newest(tmp_path):
    good = [text(offset, 3, "good") for offset in range(0, 40, 5)]
    liar = [*good[:6], text(30, 999, "good")]
    write(tmp_path / "source", liar, [(3, 0)])
    write(tmp_path / "other", good, [(3, 0)])
    report = merged(tmp_path, "other")
    assert report["logEndOffset"] == 40
    assert {each.epoch for each in facts_of(tmp_path / "target").values()} == {3}


@pytest.mark.parametrize("liar", ["source", "other"])
def test_a_last_batch_of_a_damaged_offset_does_not_make_the_log_longer(tmp_path, liar):
    good = [text(offset, 0, "same") for offset in range(0, 40, 5)]
    damaged = [*good[:-1], builders.patched(good[-1], 0, (416_611_827_723).to_bytes(8, "big"))]
    honest = "other" if liar == "source" else "source"
    write(tmp_path / liar, damaged, [(0, 0)])
    write(tmp_path / honest, good, [(0, 0)])
    report = merged(tmp_path, "other")
    assert (report["logEndOffset"], report["losses"]) == (40, [])
    assert values(tmp_path / "target") == values(tmp_path / honest)


@pytest.mark.parametrize("epoch", [0, 2, 999, -7])
def test_a_batch_of_a_damaged_epoch_is_taken_from_the_other_replica(tmp_path, epoch):
    good = [text(offset, 1, "same") for offset in range(0, 40, 5)]
    damaged = [*good[:3], text(15, epoch, "same"), *good[4:]]
    write(tmp_path / "source", damaged, [(1, 0)])
    write(tmp_path / "other", good, [(1, 0)])
    assert merged(tmp_path, "other")["notes"] == [NO_TOPIC_ID]
    assert {each.epoch for each in facts_of(tmp_path / "target").values()} == {1}


def test_the_longer_replica_of_the_newest_epoch_leads(tmp_path):
    batches = [text(offset, 0, "same") for offset in range(0, 60, 5)]
    write(tmp_path / "source", batches[:5], [(0, 0)])
    write(tmp_path / "other", batches, [(0, 0)])
    assert merged(tmp_path, "other")["logEndOffset"] == 60


def test_three_replicas_and_no_epochs_checkpoint(tmp_path):
    batches = [text(offset, 0, "same") for offset in range(0, 60, 5)]
    for number, name in enumerate(("source", "second", "third")):
        damaged = [
            each[:-1] + b"?" if at % 3 == number else each for at, each in enumerate(batches)
        ]
        write(tmp_path / name, damaged)
    report = merged(tmp_path, "second", "third")
    assert report["losses"] == []
    assert len(facts_of(tmp_path / "target")) == 60


def test_a_partition_that_only_another_has_is_taken_and_the_report_says_so(tmp_path):
    make_log(tmp_path / "source", Random(1))
    make_log(tmp_path / "other", Random(2), name="more-3")
    result = rebuild(
        str(tmp_path / "source"), str(tmp_path / "target"), merge=[str(tmp_path / "other")]
    )
    more, orders = result.partitions
    assert (more["partition"], orders["partition"]) == ("more-3", "orders-0")
    assert more["notes"][0] == (
        f"only {tmp_path}/other/more-3 has this partition: it is taken from there"
    )
    assert not orders["notes"]
    assert not result.left_out
    assert facts_of(tmp_path / "target", "more-3") == facts_of(tmp_path / "other", "more-3")


# Lineage


def piece(epoch: int, base: int, batches: int = 1) -> Piece:
    return Piece(None, 0, 0, base, base + 10, epoch, batches, 0)


def test_epochs_that_go_back_are_not_believed():
    pieces = [piece(1, 0, 5), piece(9, 10), piece(2, 20, 3), piece(0, 30), piece(2, 40)]
    assert [each.epoch for each in believable(pieces)] == [1, 2, 2]
    epochs, odd = lineage(pieces, LeaderEpochCache())
    assert epochs.entries == [EpochEntry(1, 0), EpochEntry(2, 20)]
    assert [each.epoch for each in odd] == [9, 0]


def test_a_checkpoint_that_agrees_is_taken_whole():
    known = LeaderEpochCache([EpochEntry(1, 0), EpochEntry(2, 15), EpochEntry(4, 40)])
    epochs, odd = lineage([piece(1, 0), piece(2, 20), piece(4, 50)], known)
    assert epochs == known
    assert not odd


def test_the_copy_without_batches_never_leads():
    known = LeaderEpochCache()
    assert reference([([], known), ([piece(0, 0)], known)]) == 1
