"""A cluster recovered as of a moment answers as the cut at that moment does: records, fates, topics, groups."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.columns.batch_table import holds_control
from engine.cut.moment import Moment
from engine.cut.opening import open_at
from engine.log.log_directory import LogSource
from engine.log.segment.scan import BatchRun
from engine.record.fate import Fate
from engine.recover.options import RecoverOptions
from engine.recover.recovering import recover
from engine.replay.source_state import SourceState
from engine.topics.topic_names import KAFKA_TOPICS
from tests.disasters.disks import image, write
from tests.disasters.model import GROUP, MADE_ANEW, NODES, Load, Model

FIRST = 1_700_000_000_000
LISTENERS = "\n".join(
    f'[[node]]\nid = {node}\nlisteners = {{ PLAINTEXT = "h{node}:1", CONTROLLER = "h{node}:2" }}\n'
    for node in NODES
)


def answers(source: LogSource) -> dict[str, Any]:
    """What a source answers: bytes of committed batches by partition and offset, ids of topics, offsets of the group."""
    state = SourceState(source)
    topics = state.cluster.image().topics
    group = state.known_groups().group(GROUP) if state.has_groups else None
    return {
        "records": {
            name: dict(committed(log))
            for name, log in source.partitions().items()
            if log.topic_partition.topic not in KAFKA_TOPICS and log.view().size
        },
        "topics": {name: item.facts["topicId"] for name, item in topics.items()},
        "group": {}
        if group is None
        else {place: offset.offset for place, offset in group.offsets.items()},
    }


def committed(log: Any) -> Any:
    """Yield offset and payload of the batches that a read_committed reader gets, from the log start on."""
    view = log.view()
    for segment, item in view.runs():
        assert isinstance(item, BatchRun)
        fates = view.fates(segment, item)
        control = holds_control(item.table)
        for row, facts in enumerate(item.table):
            if control[row] or facts["base_offset"] < view.log_start_offset:
                continue
            if fates is None or fates[row] in (Fate.COMMITTED, 0):
                start = int(facts["position"]) - item.start_position
                yield int(facts["base_offset"]), item.buffer[start + 61 : start + facts["size"]]


@pytest.mark.parametrize("seed", range(4))
def test_the_recovered_cluster_answers_as_the_cut_says(seed: int, tmp_path: Path) -> None:
    chooser = random.Random(seed)
    load = Load(bumps=bool(seed % 3), makes_anew=bool(seed % 2), moves=seed == 4)
    model = Model(seed, load)
    model.run(300)
    (tmp_path / "dead").mkdir()
    (tmp_path / "nodes.toml").write_text(LISTENERS)
    paths = write([image(model, node) for node in NODES], tmp_path / "dead")
    moment = Moment(time=FIRST + chooser.randint(150, 900))
    with closing(open_at(paths, moment)) as source:
        expected = answers(source)
    options = RecoverOptions(nodes=str(tmp_path / "nodes.toml"), at=moment, hold=True)
    report = recover(paths, str(tmp_path / "target"), options).report
    assert report["at"] == moment.time
    for each in report["formerOffsets"]:  # of an older topic of the same name
        del expected["group"][MADE_ANEW]
        assert each["partition"] == str(MADE_ANEW)
    made = [str(tmp_path / f"target/node-{node}/data") for node in NODES]
    with closing(open_at(made, None)) as source:
        assert answers(source) == expected
