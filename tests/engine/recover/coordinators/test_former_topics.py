"""An offset of a deleted topic proves nothing of the topic that has its name now."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.recover.coordinators.former_topics import FormerTopics
from engine.recover.coordinators.group_offsets import GroupOffset
from engine.recover.metadata.cluster_metadata import newest_metadata
from engine.units import TopicPartition
from tests.builders import batch
from tests.engine.recover.metadata.clusters import LOG, topic, uuid_of, write_log_dir
from tests.replayed_bytes import metadata_record, snapshot_bytes

MADE = 1_800_000_000_000


@pytest.fixture
def former(tmp_path: Path) -> FormerTopics:
    """A cluster in which `a` was made at MADE, and `old` is in a snapshot; both are in leader epoch 3."""
    log = [each._replace(timestamp=MADE) for each in topic("a", 1)]
    later = metadata_record("NO_OP_RECORD")._replace(timestamp=MADE * 2)
    path = write_log_dir(
        tmp_path / "n", [batch([each], 9 + at) for at, each in enumerate([*log, later])], base=9
    )
    name = "00000000000000000009-0000000000.checkpoint"
    (path / LOG / name).write_bytes(snapshot_bytes(topic("old", 2)))
    return FormerTopics(newest_metadata([open_source(str(path))]))


def offset(
    name: str = "a", *, at: int = MADE + 1, epoch: int = -1, topic_id: str | None = None
) -> GroupOffset:
    return GroupOffset("g", TopicPartition(name, 0), 550, epoch, at, topic_id, b"", b"")


def test_the_topic_id_of_the_commit_decides(former: FormerTopics) -> None:
    assert "for the topic id" in (former.why(offset(topic_id=uuid_of(8))) or "")
    assert former.why(offset(topic_id=uuid_of(1), at=1)) is None


def test_a_commit_before_the_topic_was_made_is_of_a_former_one(former: FormerTopics) -> None:
    assert former.why(offset(at=MADE - 1)) == "it was committed before the topic was made"
    assert former.why(offset()) is None
    assert former.why(offset("old", at=1)) is None, "a snapshot does not tell when it was made"


def test_a_leader_epoch_that_the_topic_never_had_is_of_a_former_one(former: FormerTopics) -> None:
    assert "in leader epoch 7" in (former.why(offset("old", epoch=7, at=1)) or "")
    assert former.why(offset("old", epoch=3, at=1)) is None
    assert former.why(offset("old", epoch=7, at=MADE * 3)) is None, "the metadata may be older"


def test_a_topic_that_is_not_known_says_nothing(former: FormerTopics) -> None:
    assert former.why(offset("other", at=1)) is None
