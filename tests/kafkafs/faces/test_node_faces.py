"""What a node's log dir lost is one set to every face: commands, tree, Python, plan, report, serve and rebuild.

Whole log dirs are damaged in several ways at once: logs, internal topics, folders, links, files beside the logs,
interrupted compactions, leftovers. The generator knows which records are left. KAFKAFS_FACES_SEEDS=1000 tries more.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafkafs.faces.contradictions import contradictions
from tests.kafkafs.faces.damage import (
    NODE_KINDS,
    Damaged,
    NodeKind,
    SoundNode,
    damaged_node,
    killed,
    log_damage,
    sound_node,
    wrong_offset,
)
from tests.kafkafs.faces.naming import NAMING

SEEDS = int(os.environ.get("KAFKAFS_FACES_SEEDS", "6"))
FIRST_SEED = int(os.environ.get("KAFKAFS_FACES_FIRST_SEED", "1"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SoundNode:
    return sound_node(tmp_path_factory.mktemp("node"))


def test_all_faces_are_content_with_a_sound_node(sound: SoundNode, tmp_path: Path) -> None:
    node = Damaged(tmp_path / "data", sound)
    shutil.copytree(sound.path, node.path)
    assert list(contradictions(node)) == []
    assert {face.__name__: face(node).status for face in NAMING if face(node).status} == {}


@pytest.mark.parametrize("kind", NODE_KINDS, ids=lambda kind: kind.__name__)
def test_each_face_says_the_same_of_one_kind_of_damage(
    kind: NodeKind, sound: SoundNode, tmp_path: Path
) -> None:
    node = damaged_node(sound, tmp_path, 7, (kind,))
    assert list(contradictions(node)) == [], node.did


def test_each_face_says_the_same_after_a_crash(sound: SoundNode, tmp_path: Path) -> None:
    node = damaged_node(sound, tmp_path, 11, (killed, log_damage, log_damage))
    assert list(contradictions(node)) == [], node.did


WRONG: dict[str, Callable[[int], int]] = {
    "huge": lambda base: base + 1_489_465_525_489_631_232,
    "above-a-segment": lambda base: base + (1 << 31),
    "ahead": lambda base: base + 40,
    "back": lambda base: max(base - 3, 0),
    "largest": lambda base: 1 << 62,
    "negative": lambda base: (1 << 64) - 5,
}


@pytest.mark.parametrize("how", WRONG)
@pytest.mark.parametrize("name", ["orders-0", "txn-1", "__consumer_offsets-1"])
def test_each_face_says_the_same_of_a_batch_with_wrong_offsets(
    name: str, how: str, sound: SoundNode, tmp_path: Path
) -> None:
    shutil.copytree(sound.path, tmp_path / "data")
    node = Damaged(tmp_path / "data", sound)
    wrong_offset(node, name, WRONG[how], random.Random(f"{name} {how}"))
    assert list(contradictions(node)) == [], node.did


FOUND = {
    97280: "compacted offsets beside a flipped bit may be lost",
    70091: "a wrong offset beside damage hides no good batch",
    200042: "an impossible offset behind a damaged batch loses nothing before it",
    200047: "without metadata nobody knows a lost segment of keyed records from compaction",
    200781: "records that are only in a .swap which a start deletes are lost, not compacted",
    201427: "a batch with a flipped bit in its offset, behind damage, hides no batch after it",
    300199: "a gap that nothing explains, before a segment that begins with damage, is no loss",
    301192: "serve tells a lost segment where the next one begins with damage",
}


@pytest.mark.parametrize("seed", FOUND)
def test_each_face_says_the_same_of_the_seeds_that_found_a_fault(
    seed: int, sound: SoundNode, tmp_path: Path
) -> None:
    node = damaged_node(sound, tmp_path, seed)
    assert list(contradictions(node)) == [], (FOUND[seed], node.did)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_each_face_says_the_same_of_mixed_damage(
    seed: int, sound: SoundNode, tmp_path: Path
) -> None:
    node = damaged_node(sound, tmp_path, seed)
    assert list(contradictions(node)) == [], node.did
