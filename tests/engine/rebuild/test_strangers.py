"""Copies are merged only if they are of one topic in one cluster; what differs under one leader is named."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.rebuild.errors import RebuildRefusedError
from engine.rebuild.options import RebuildOptions
from engine.rebuild.rebuilding import rebuild
from engine.rebuild.target.rebuilt import Rebuilt
from tests import builders
from tests.builders import Rec
from tests.engine.rebuild.made_logs import TOPIC_ID, facts_of, make_log

OTHER_ID = "0nYXeNlYRHqzT2vPJvAx8Q"


def merged(tmp_path: Path, *others: str, **options: object) -> Rebuilt:
    names = [str(tmp_path / other) for other in others]
    asked = RebuildOptions(**options)  # type: ignore[arg-type]
    return rebuild(str(tmp_path / "source"), str(tmp_path / "target"), asked, merge=names)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def topic_of(tmp_path: Path, name: str) -> None:
    change(tmp_path / name / "orders-0" / "partition.metadata", TOPIC_ID, OTHER_ID)


def cluster_of(tmp_path: Path, name: str) -> None:
    change(tmp_path / name / "meta.properties", "AAAAAAAAAAAAAAAAAAAABA", OTHER_ID)


@pytest.mark.parametrize("stranger", [topic_of, cluster_of])
@pytest.mark.parametrize("others", [("other",), ("same", "other")])
def test_a_stranger_of_the_same_name_is_refused(tmp_path: Path, stranger, others) -> None:  # type: ignore[no-untyped-def]
    make_log(tmp_path / "source", Random(1), batches=20)
    make_log(tmp_path / "same", Random(1), batches=20)
    make_log(tmp_path / "other", Random(2), batches=40)
    stranger(tmp_path, "other")
    with pytest.raises(RebuildRefusedError) as refused:
        merged(tmp_path, *others)
    mine = "AAAAAAAAAAAAAAAAAAAABA" if stranger is cluster_of else TOPIC_ID
    for part in (mine, OTHER_ID, str(tmp_path / "source"), str(tmp_path / "other")):
        assert part in refused.value.reason
    assert "--merge-strangers" in refused.value.hint
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("stranger", [topic_of, cluster_of])
def test_a_stranger_is_merged_if_it_is_forced(tmp_path: Path, stranger) -> None:  # type: ignore[no-untyped-def]
    make_log(tmp_path / "source", Random(1), batches=20)
    make_log(tmp_path / "other", Random(1), batches=20)
    stranger(tmp_path, "other")
    assert merged(tmp_path, "other", merge_strangers=True).partitions


@pytest.mark.parametrize("name", ["source", "other"])
@pytest.mark.parametrize("data", [None, b"", bytes(50), b"version: 0\ntopic_id: no id"])
def test_an_id_that_is_not_there_refuses_nothing(tmp_path: Path, name: str, data) -> None:  # type: ignore[no-untyped-def]
    make_log(tmp_path / "source", Random(1), batches=20)
    make_log(tmp_path / "other", Random(1), batches=20)
    for path in (
        tmp_path / name / "orders-0" / "partition.metadata",
        tmp_path / name / "meta.properties",
    ):
        path.unlink()
        if data is not None:
            path.write_bytes(data)
    result = merged(tmp_path, "other")
    assert facts_of(tmp_path / "target") == facts_of(
        tmp_path / ("source" if name == "other" else "other")
    )
    assert result.partitions[0]["topicId"] == TOPIC_ID


# Batches that differ under one leader


def write(log_dir: Path, batches: dict[int, bytes], per_segment: int = 8) -> None:
    folder = log_dir / "orders-0"
    folder.mkdir(parents=True)
    offsets = sorted(batches)
    for at in range(0, len(offsets), per_segment):
        part = offsets[at : at + per_segment]
        data = b"".join(batches[offset] for offset in part)
        (folder / f"{part[0]:020}.log").write_bytes(data)
    (folder / "leader-epoch-checkpoint").write_text("0\n1\n3 0\n")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}")


def batch(offset: int, what: str) -> bytes:
    records = [Rec(f"{what} {offset + at}".encode()) for at in range(5)]
    return builders.batch(records, offset, leader_epoch=3)


@pytest.mark.parametrize("seed", range(20))
def test_good_batches_that_differ_are_named_and_the_sources_are_kept(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    count = random.choice([4, 30, 2000])
    offsets = range(0, 5 * count, 5)
    mine = {offset: batch(offset, "same") for offset in offsets}
    others = {
        offset: batch(offset, "same")
        for offset in range(0, 5 * random.choice([count, count + 3]), 5)
    }
    differing = set(random.sample(offsets, random.choice([0, 1, min(count, 3)])))
    for offset in differing:
        others[offset] = batch(offset, "stranger")
    lost = set(random.sample(sorted(mine), random.choice([0, 1])))
    for offset in lost:
        mine[offset] = mine[offset][:-1] + b"?"
    write(tmp_path / "source", mine)
    write(tmp_path / "other", others)
    result = merged(tmp_path, "other")
    [report] = result.partitions
    named: set[int] = set()
    for each in report["dropped"]:
        if each["kind"] != "differs":
            continue
        assert each["isLoss"]
        assert str(tmp_path / "source" / "orders-0") in each["reason"]
        assert each["file"].startswith(str(tmp_path / "other" / "orders-0"))
        named |= set(range(each["firstOffset"], each["lastOffset"] + 1, 5))
    assert named == differing - lost
    assert result.lost_something == bool(differing - lost)
    got = {offset: fact.value for offset, fact in facts_of(tmp_path / "target").items()}
    for offset in others:
        taken = "stranger" if offset in differing & lost else "same"
        assert got[offset] == f"{taken} {offset}".encode()


def test_replicas_that_compaction_left_different_do_not_differ(tmp_path: Path) -> None:
    mine = {offset: batch(offset, "same") for offset in range(0, 50, 5)}
    others = dict(mine)
    write(tmp_path / "source", mine)
    write(tmp_path / "other", others)
    for name in ("source", "other"):
        (tmp_path / name / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 40\n")
    others[25] = batch(25, "rewritten")
    (tmp_path / "other" / "orders-0" / f"{0:020}.log").write_bytes(
        b"".join(others[offset] for offset in range(0, 40, 5))
    )
    assert merged(tmp_path, "other").partitions[0]["dropped"] == []
