"""A mount and a server say what the other faces say: read through the kernel, and asked over a connection."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kafkafs.faces.contradictions import of_naming
from tests.kafkafs.faces.daemons import client_of_serve, mount
from tests.kafkafs.faces.damage import (
    SoundNode,
    damaged_node,
    interrupted_swap,
    log_damage,
    lost_folder,
    offsets_damage,
    sound_node,
)
from tests.mount.mounted import needs_fuse

KINDS = (log_damage, log_damage, offsets_damage, lost_folder, interrupted_swap)
SEEDS = int(os.environ.get("KAFKAFS_FACES_SEEDS", "100")) // 100
FIRST_SEED = int(os.environ.get("KAFKAFS_FACES_FIRST_SEED", "1"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> SoundNode:
    return sound_node(tmp_path_factory.mktemp("node"))


@pytest.mark.mount
@needs_fuse
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + max(SEEDS, 1)))
def test_a_mount_shows_what_is_left_and_names_what_is_lost(
    seed: int, sound: SoundNode, tmp_path: Path
) -> None:
    node = damaged_node(sound, tmp_path, seed, KINDS)
    assert list(of_naming(node, {"mount": mount(node)})) == [], node.did


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + max(SEEDS, 1)))
def test_a_server_sends_what_is_left_and_errors_for_what_is_lost(
    seed: int, sound: SoundNode, tmp_path: Path
) -> None:
    node = damaged_node(sound, tmp_path, seed, KINDS)
    assert list(of_naming(node, {"client of serve": client_of_serve(node)})) == [], node.did
