"""What a log lost is said alike by every face: commands, tree, Python, check, report and rebuild.

The truth is made with the damage: the offsets of the batches whose bytes were changed or taken away.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

import kafkafs
from engine.clock import SystemClock
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from kafkafs.cli import cli
from kafkafs.report.facts import FactsReader
from kafkafs.report.verdict import verdict
from kafkafs.tree.tree import Tree
from tests.fixtures_data import copy_of
from tests.kafkafs.faces.damage import (
    LOG_KINDS,
    LogKind,
    cut_segment,
    emptied_segment,
    lost_records_file,
    lost_segment,
    segments,
    zeroed_segment,
)
from tests.kafkafs.faces.naming import between

LOG = "orders-0"
TOPIC = "orders"
FOLDERS = [LOG, "txn-0", "__cluster_metadata-0"]
SEEDS = int(os.environ.get("KAFKAFS_FACES_SEEDS", "4"))
FIRST_SEED = int(os.environ.get("KAFKAFS_FACES_FIRST_SEED", "1"))


class Batch(NamedTuple):
    """A batch of the sound log: its segment's file, its bytes and its offsets."""

    file: str
    start: int
    end: int
    first: int
    next: int


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of("current", tmp_path_factory.mktemp("sound"), FOLDERS)


@pytest.fixture(scope="module")
def batches(sound: Path) -> list[Batch]:
    with closing(open_source(str(sound))) as source:
        view = source.partitions()[LOG].view()
        return [
            Batch(segment.name, int(p), int(p) + int(s), int(first), int(last) + 1)
            for segment, run in view.runs()
            if isinstance(run, BatchRun)
            for p, s, first, last in zip(
                *(run.table[each] for each in ("position", "size", "base_offset", "last_offset")),
                strict=True,
            )
        ]


# -- faces: the offsets of LOG that each one names as lost


def run(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def offsets_of(errors: list[dict[str, Any]], shown: list[int], end: int) -> set[int]:
    """The offsets of error facts; where they do not state a bound, it is the next record shown."""
    lost: set[int] = set()
    for facts in errors:
        first, last = facts["firstOffset"], facts["lastOffset"]
        if first is None:
            continue
        if last is None:
            last = min([offset for offset in shown if offset >= first], default=end) - 1
        lost |= between(first, last + 1)
    return lost - set(shown)


def cat(source: Path, end: int) -> tuple[int, set[int]]:
    status, text, told = run("cat", source, "--partition", LOG)
    lines = [json.loads(line) for line in text.splitlines()]
    shown = [line["offset"] for line in lines if "offset" in line]
    if not lines:  # nothing is left: the loss is a sentence
        assert "are gone" in told
        return status, set(range(end))
    return status, offsets_of([line["error"] for line in lines if "error" in line], shown, end)


def tree(source: Path, end: int) -> tuple[int, set[int]]:
    """What the files of records/ show, joined; for what has no file, the problems."""
    with closing(open_source(str(source))) as opened:
        shown_tree = Tree(opened)
        folder: Any = shown_tree.resolve(f"{LOG}/records")
        names = [entry.name for entry in folder.entries(0) if entry.name.endswith(".jsonl")]
        lines = []
        for name in names:
            node: Any = shown_tree.resolve(f"{LOG}/records/{name}")
            content = node.open()
            lines += content.read(0, content.size).splitlines()
            assert b"".join(node.chunks()) == content.read(0, content.size)
        facts = [json.loads(line) for line in lines]
        shown = [line["offset"] for line in facts if "offset" in line]
        errors = [line["error"] for line in facts if "error" in line]
        problems = [
            entry
            for entry in shown_tree.context.problems
            if entry["kind"] == "missing" and entry["partition"] == LOG
        ]
        missing = [each for each in errors if each["kind"] == "missing"]
        assert not missing or problems, "the problems lack what the lines say"
        lost = offsets_of(errors, shown, end)
        return int(bool(errors or problems)), set(range(end)) if not names else lost


def python(source: Path, end: int) -> tuple[int, set[int]]:
    with kafkafs.open(source) as opened:
        table = (
            opened.scan(TOPIC, columns=["offset", "_corrupt"], on_corrupt="row")
            .to_arrow()
            .to_pylist()
        )
    shown = [row["offset"] for row in table if row["_corrupt"] is None]
    bad = [row for row in table if row["_corrupt"] is not None]
    return len(bad), set(range(end)) - set(shown) if bad else set()


def check(source: Path, end: int) -> tuple[int, set[int]]:
    status, text, _ = run("check", source, "--partition", LOG, "--json", "-j1")
    objects = [json.loads(line) for line in text.splitlines()]
    lost: set[int] = set()
    for part in objects:
        for loss in part.get("losses", ()) if part["type"] == "partition" else ():
            following = end if loss["nextOffset"] is None else loss["nextOffset"]
            lost |= between(loss["firstOffset"], following)
    assert objects[-1]["lossTotals"]["offsets"] == len(lost)
    return status, lost


def rebuild(source: Path, end: int) -> tuple[int, set[int]]:
    target = source.parent / "target"
    words = ("rebuild", source, target, "--dry-run", "--json", "--partition", LOG, "--allow-empty")
    status, text, told = run(*words)
    assert text, (status, told)
    (partition,) = json.loads(text)["partitions"]
    lost: set[int] = set()
    for each in partition["losses"]:
        lost |= between(each["firstOffset"], each["nextOffset"])
    return status, lost


NAMING: list[Callable[[Path, int], tuple[int, set[int]]]] = [cat, tree, python, check, rebuild]


def statuses(source: Path) -> Iterator[tuple[str, bool]]:
    """Which faces, of those that name no offsets, say that something is missing."""
    out = source.parent / "export"
    for name, words in {
        "grep": ("grep", "-c", ".", source, "--partition", LOG),
        "sql": ("sql", f"select count(*) from {TOPIC}", source, "--partition", LOG),
        "export": ("export", source, out, "--partition", LOG, "--on-corrupt", "skip"),
        "stats": ("stats", source, "--partition", LOG),
        "stats --keys": ("stats", "--keys", source, "--partition", LOG),
        "get": ("get", source, TOPIC, "no such key"),
    }.items():
        status, _, told = run(*words)
        yield (
            name,
            status != 0 and (name != "get" or "gone" in told or "not all was searched" in told),
        )
    shutil.rmtree(out, ignore_errors=True)
    with closing(open_source(str(source))) as opened:
        reader = FactsReader(
            opened,
            [str(source)],
            takes=lambda log: log.name == LOG,
            jobs=1,
            clock=SystemClock(),
            advance=lambda _: None,
        )
        facts = reader.read()
        yield "report", not facts.is_sound and verdict(facts)[0].level == "error"


def contradictions(source: Path, truth: set[int], end: int) -> Iterator[str]:
    for face in NAMING:
        status, lost = face(source, end)
        if lost != truth:
            yield (
                f"{face.__name__} misses {sorted(truth - lost)[:5]}, adds {sorted(lost - truth)[:5]}"
            )
        if bool(status) != bool(truth):
            yield f"{face.__name__} ends with status {status}"
    for name, says_so in statuses(source):
        if says_so != bool(truth):
            yield f"{name} {'reports a loss' if says_so else 'reports no loss'}"


def _hurt(
    sound: Path,
    tmp_path: Path,
    batches: list[Batch],
    kinds: list[Any],
    pick: random.Random,
    *,
    least: int = 200,
) -> tuple[Path, set[int]]:
    """Damage a copy of a log dir, while its segments have more than `least` bytes; the path, and the offsets lost."""
    source = tmp_path / "data"
    shutil.copytree(sound, source)
    for kind in kinds:
        left = segments(source / LOG)
        if left and all(path.stat().st_size >= least for path in left):
            kind(source / LOG, pick)
    lost: set[int] = set()
    for batch in batches:
        path = source / LOG / batch.file
        whole = path.read_bytes() if path.exists() else b""
        before = (sound / LOG / batch.file).read_bytes()
        if before[batch.start : batch.end] not in whole:
            lost |= set(range(batch.first, batch.next))
    return source, lost


class Place(random.Random):
    """Chooses by a place in a sequence."""

    place = 0

    def choice(self, seq: Any) -> Any:
        return seq[max(-len(seq), min(self.place, len(seq) - 1))]


def test_a_sound_log_has_lost_nothing(sound: Path, batches: list[Batch], tmp_path: Path) -> None:
    source = tmp_path / "data"
    shutil.copytree(sound, source)
    assert [face(source, 1000) for face in NAMING if face is not check] == [(0, set())] * 4
    assert [name for name, says_so in statuses(source) if says_so and name != "get"] == []


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("kind", LOG_KINDS, ids=lambda kind: kind.__name__)
def test_each_face_names_what_is_lost(
    kind: Callable[[Path, random.Random], None],
    place: int,
    sound: Path,
    batches: list[Batch],
    tmp_path: Path,
) -> None:
    pick = Place(place)
    pick.place = place
    source, lost = _hurt(sound, tmp_path, batches, [kind], pick)
    assert list(contradictions(source, lost, batches[-1].next)) == []


@pytest.mark.parametrize("places", [(-2, -1), (0, 1)], ids=["last", "first"])
@pytest.mark.parametrize(
    "second", [emptied_segment, zeroed_segment, lost_records_file, lost_segment, cut_segment]
)
@pytest.mark.parametrize("first", [zeroed_segment, cut_segment, emptied_segment])
def test_each_face_names_what_neighbouring_segments_lost(
    first: LogKind,
    second: LogKind,
    places: tuple[int, int],
    sound: Path,
    batches: list[Batch],
    tmp_path: Path,
) -> None:
    def hurt(kind: LogKind, place: int) -> LogKind:
        def one(folder: Path, pick: random.Random) -> None:
            assert isinstance(pick, Place)
            pick.place = place
            kind(folder, pick)

        return one

    kinds = list(map(hurt, (first, second), places))
    source, lost = _hurt(sound, tmp_path, batches, kinds, Place(7), least=0)
    assert list(contradictions(source, lost, batches[-1].next)) == []


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_each_face_names_what_mixed_damage_lost(
    seed: int, sound: Path, batches: list[Batch], tmp_path: Path
) -> None:
    pick = random.Random(seed)
    kinds = [pick.choice(LOG_KINDS) for _ in range(pick.randint(1, 3))]
    source, lost = _hurt(sound, tmp_path, batches, kinds, pick)
    assert list(contradictions(source, lost, batches[-1].next)) == [], [k.__name__ for k in kinds]


def test_a_seed_that_was_wrong_once(sound: Path, batches: list[Batch], tmp_path: Path) -> None:
    """Random bytes hit the batch behind one that is gone; readers named the offsets of the hit one alone."""
    test_each_face_names_what_mixed_damage_lost(80587, sound, batches, tmp_path)


@pytest.mark.parametrize("is_gone_first", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("place", [0, 5, -2], ids=["first", "inner", "last"])
@pytest.mark.parametrize("file", range(3))
def test_each_face_names_a_batch_that_is_gone_beside_a_damaged_one(
    file: int,
    place: int,
    is_gone_first: bool,
    sound: Path,
    batches: list[Batch],
    tmp_path: Path,
) -> None:
    """No byte is left of the one, and the other one's header states its own offsets."""
    name = sorted({each.file for each in batches})[file]
    own = [each for each in batches if each.file == name]
    gone, hit = own[place : place + 2 or None][:: 1 if is_gone_first else -1]

    def hurt(folder: Path, _: random.Random) -> None:
        data = bytearray((folder / name).read_bytes())
        data[hit.end - 1] ^= 1
        del data[gone.start : gone.end]
        (folder / name).write_bytes(data)

    source, lost = _hurt(sound, tmp_path, batches, [hurt], Place())
    assert lost == {*range(gone.first, gone.next), *range(hit.first, hit.next)}
    assert list(contradictions(source, lost, batches[-1].next)) == []
