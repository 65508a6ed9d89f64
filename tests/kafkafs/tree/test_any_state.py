"""Whatever the internal topics hold, what is replayed from them is JSON, and nothing is raised."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest

from engine.log.log_directory import open_source
from engine.replay.source_state import SourceState
from kafkafs.tree.node import Kind
from kafkafs.tree.tree import Tree
from tests.builders import Producer, Rec, batch, end_marker
from tests.internal_records import damaged, random_record
from tests.kafkafs.built_logs import content_of
from tests.replayed_bytes import NOW, write_partition

ROUNDS = int(os.environ.get("KAFKAFS_REPLAY_ROUNDS") or 6)
TOPICS = (
    "__consumer_offsets", "__transaction_state", "__cluster_metadata", "__share_group_state",
)  # fmt: skip


def written(folder: Path, chance: Random, count: int) -> None:
    """Partitions of random records: good ones, tombstones, damaged ones, some in transactions."""
    for topic in TOPICS:
        batches = []
        for offset in range(count):
            key, value = random_record(topic, chance)
            if chance.random() < 0.2 and value is not None:
                value = damaged(value, chance)
            if chance.random() < 0.1 and key is not None:
                key = damaged(key, chance)
            writer = Producer(id=chance.choice([-1, -1, -1, 5, 6]), epoch=0, sequence=0)
            if chance.random() < 0.1 and writer.id >= 0:
                batches.append(end_marker(offset, writer, commit=chance.random() < 0.7))
                continue
            record = Rec(value, key, NOW + chance.randrange(-5, 500))
            is_open = writer.id >= 0
            batches.append(batch([record], offset, producer=writer, transactional=is_open))
        write_partition(folder, f"{topic}-0", batches)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_any_state_make_a_state_that_can_be_shown(seed: int, tmp_path: Path) -> None:
    written(tmp_path, Random(seed), 400)
    source = open_source(str(tmp_path))
    state = SourceState(source)
    groups = 0
    known = state.known_groups()
    for name in known.names:
        group = known.group(name)
        assert group is not None
        rows = [row.facts() for row in state.rows(group)]
        rows += [row.facts() for row in state.share_rows(group, known)]
        json.dumps([group.facts(), rows], allow_nan=False)
        groups += 1
    ids = state.transactions.image()
    found = [ids.transaction(name) for name in ids.names]
    json.dumps([each.facts() for each in found if each], allow_nan=False)
    json.dumps([each.facts() for each in state.open_transactions()], allow_nan=False)
    assert groups
    walked(Tree(source))


def walked(tree: Tree) -> None:
    """Everything that is listed can be found, and every file is JSON of the size that was told."""
    todo = ["groups", "transactions", "cluster"]
    while todo:
        path = todo.pop()
        for entry in tree.resolve(path).entries():  # type: ignore[attr-defined]
            child = f"{path}/{entry.name}"
            node = tree.resolve(child)
            if entry.kind is Kind.DIRECTORY:
                todo.append(child)
            else:
                data = content_of(node)
                assert node.attrs().size == len(data)
                json.loads(data)
