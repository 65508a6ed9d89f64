"""Kafka's own log classes and ours, given the same calls, write the same bytes; each loads what the other wrote."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.broker.checkpoint.offset_checkpoint_file import OffsetCheckpointFile
from engine.errors import KafkaStorageError
from engine.units import MAX_INT32, TopicPartition
from tests.kafka.conftest import SEED
from tests.kafka.judge import Judge, JudgeError
from tests.log_scripts import Answer, failure, load, without_empty_indexes, without_messages
from tests.random_scripts import RandomScript
from tests.spoiled_logs import Spoiler, remove_end_begun_too_early

SCRIPTS = int(os.environ.get("KAFKAFS_JUDGED_SCRIPTS") or 40)
"""Scripts of each kind; a long run has a thousand."""
STEPS = 60


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as running:
        yield running


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(value))


def numbered(count: int) -> Any:
    """Seeds for scripts that nobody tried yet, or those of $KAFKAFS_KAFKA_SEED again."""
    return pytest.mark.parametrize("seed", range(SEED, SEED + count))


def written_by_both(judge: Judge, work: Path, seed: int) -> tuple[Any, Any]:
    """What our classes and Kafka's say of a random script and leave behind, as far as it must be the same."""
    ours = RandomScript(seed, work / "ours" / "topic-0", STEPS)
    written = answered(lambda: judge.write(work / "kafka" / "topic-0", plain(ours.script)))
    finished = answered(ours.finish)
    if not ours.is_over:
        finished, written = map(without_messages, (finished, written))
        return without_empty_indexes(finished), without_empty_indexes(written)
    if "steps" in finished and "steps" in written:
        # What is mapped twice by then is not compared, and Kafka may fail to close it.
        return finished["steps"], without_messages(written)["steps"]
    return "error", "error" if "error" in written else written


@numbered(SCRIPTS)
def test_the_same_calls_write_the_same_bytes(judge: Judge, tmp_path: Path, seed: int) -> None:
    ours, kafkas = written_by_both(judge, tmp_path, seed)
    assert ours == kafkas


@pytest.mark.parametrize("seed", [1_000_000_301, 1_000_001_318, 1_000_001_418])
def test_what_was_once_written_otherwise_both_write_alike(
    judge: Judge, tmp_path: Path, seed: int
) -> None:
    """An append without a producer after a truncation, which read an aborted transaction again; a cleaning round's end."""
    ours, kafkas = written_by_both(judge, tmp_path, seed)
    assert ours == kafkas


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@numbered(SCRIPTS // 10)
def test_with_another_codec_the_same_records_are_in_the_log(
    judge: Judge, tmp_path: Path, seed: int, codec: str
) -> None:
    """Its library makes other bytes, so segments roll by time here, not by size."""
    config = {
        "compression.type": codec,
        "internal.segment.bytes": "1000000",
        "retention.bytes": "-1",
        "index.interval.bytes": "1000000",
    }
    script = RandomScript(seed, tmp_path / "ours" / "topic-0", STEPS, config)
    head = plain(script.head) | {"clean": True}
    theirs = judge.write(tmp_path / "kafka" / "topic-0", plain(script.script))
    ours = plain(script.finish())
    assert ours["steps"] == without_messages(theirs)["steps"]
    assert ours["state"] == theirs["state"]
    served = loaded(load, tmp_path / "ours" / "topic-0", head)["reads"]
    assert served == loaded(judge.load, tmp_path / "kafka" / "topic-0", head)["reads"]
    assert served == loaded(judge.load, tmp_path / "ours" / "topic-0", head)["reads"]


def loaded_by_both(judge: Judge, work: Path, seed: int) -> tuple[Any, Any]:
    """What our classes and Kafka's load of a log that was killed or closed, whole or spoilt."""
    folder = work / "left" / "topic-0"
    script = RandomScript(seed, folder, STEPS)
    head = plain(script.head) | {"clean": seed % 3 == 0}
    if head["clean"]:
        answered(script.finish)
    else:
        Spoiler(seed, folder).spoil()
        remove_end_begun_too_early(folder)
    ours, kafkas = work / "ours" / "topic-0", work / "kafka" / "topic-0"
    shutil.copytree(folder, ours)
    shutil.copytree(folder, kafkas)
    return _alike(loaded(load, ours, head), loaded(judge.load, kafkas, head), folder)


def _alike(ours: Any, kafkas: Any, left: Path) -> tuple[Any, Any]:
    """What both loaded of a folder, without files that are meant to differ and that no reader sees.

    Kafka renames a part of a split segment over the segment, where we rename the segment for deletion first. Kafka
    recovers an unflushed segment without an index twice, first without the segment itself, and so has a snapshot more.
    """
    if "state" not in ours or "state" not in kafkas:
        return ours, kafkas
    bases = ours["state"]["segments"]
    if bases[-1] - bases[0] > MAX_INT32:
        for each in (ours, kafkas):
            each["files"] = {k: v for k, v in each["files"].items() if not k.endswith(".deleted")}
    without_index = (f for f in left.glob("*.log") if not f.with_suffix(".index").exists())
    needless = [f"{base:020}.snapshot" for base in bases] if any(without_index) else []
    for name in needless:
        if name not in ours["files"]:
            kafkas["files"].pop(name, None)
    return ours, kafkas


@numbered(SCRIPTS)
def test_what_one_left_behind_in_any_state_both_load_alike(
    judge: Judge, tmp_path: Path, seed: int
) -> None:
    """Killed or closed, whole or with a file cut, spoilt or gone."""
    ours, kafkas = loaded_by_both(judge, tmp_path, seed)
    assert ours == kafkas


@pytest.mark.parametrize(
    "seed", [1_000_000_159, 1_000_000_924, 1_000_001_678, 1_000_002_542, 1_000_002_728]
)
def test_what_was_once_loaded_otherwise_both_load_alike(
    judge: Judge, tmp_path: Path, seed: int
) -> None:
    """Noise of an unknown magic after a replacement's batches; an empty segment behind a gap; a byte as an index."""
    ours, kafkas = loaded_by_both(judge, tmp_path, seed)
    assert ours == kafkas


def loaded(by: Callable[..., Answer], folder: Path, head: Answer) -> Any:
    """What loading and reading give, or the name of what is raised."""
    start = head["log_start"]
    return answered(lambda: by(folder, head, [(start, "LOG_END"), (start, "TXN_COMMITTED")]))


def answered(call: Callable[[], Answer]) -> Any:
    """What a call gives, or {"error": the name of what it raises}."""
    try:
        return plain(call())
    except JudgeError as error:
        return {"error": error.name}
    except (KafkaStorageError, OSError, ValueError) as error:
        return failure(error)


def test_kafka_serves_a_consumer_what_we_wrote(judge: Judge, tmp_path: Path) -> None:
    script = RandomScript(SEED, tmp_path / "topic-0", STEPS)
    start = script.head["log_start"]
    script.finish()
    ours = load(tmp_path / "topic-0", script.head, [(start, "TXN_COMMITTED")])
    assert judge.read(tmp_path / "topic-0", start, "TXN_COMMITTED") == ours["reads"][0]


def test_checkpoint_files_are_the_same(judge: Judge, tmp_path: Path) -> None:
    offsets = [("topic", 0, 17), ("other", 3, 0), ("topic", 1, 2**62)]
    text = judge.checkpoint(tmp_path / "kafkas", offsets)
    entries = {TopicPartition(topic, number): offset for topic, number, offset in offsets}
    OffsetCheckpointFile(tmp_path / "ours").write(entries)
    assert (tmp_path / "ours").read_text() == text
