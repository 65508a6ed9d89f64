"""A daemon's log has each problem of its source once, whenever it is found and in whichever partition."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from random import Random

import pytest

from engine.log.partition_log import MAX_AGE
from engine.log.segment.problems import Problems
from kafkafs.mount.problem_log import ProblemLog
from kafkafs.serve.error_codes import ErrorCode
from tests.engine.log.folders import LogWriter
from tests.kafkafs.serve.consumed import Consumer

logger = logging.getLogger("problems")


def test_problems_in_any_order_of_partitions_and_places_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    random = Random(11)
    lists = [Problems(f"topic-{number}") for number in range(5)]
    told = ProblemLog(logger, lambda: [entry for each in lists for entry in each.entries()])
    places = [(number, at) for number in range(5) for at in range(20)] * 2
    random.shuffle(places)
    for number, at in places:
        lists[number].add("checksum", f"topic-{number}/0.log", "it is wrong", position=at)
        if random.random() < 0.3:
            told.look()
    told.look()
    expected = [
        f"checksum: topic-{number}/0.log at byte {at}: it is wrong" for number, at in places
    ]
    assert sorted(caplog.messages) == sorted(set(expected))


def test_a_list_that_drops_its_oldest_entries_repeats_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems = Problems("topic-0", most=3)
    told = ProblemLog(logger, problems.entries)
    for at in [*range(8), *range(8)]:
        problems.add("checksum", "topic-0/0.log", "it is wrong", position=at)
        told.look()
    assert len(caplog.messages) == 8


@pytest.mark.parametrize(
    ("file", "where"),
    [("topic-0", "topic-0"), ("topic-0/0.log", "topic-0/0.log"), ("0.log", "topic-0/0.log")],
)
def test_a_problem_names_its_partition_once(
    caplog: pytest.LogCaptureFixture, file: str, where: str
) -> None:
    problems = Problems("topic-0")
    problems.add("missing", file, "it is gone")
    ProblemLog(logger, problems.entries).look()
    assert caplog.messages == [f"missing: {where}: it is gone"]


def test_damage_that_arises_while_it_is_served_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writers = [LogWriter(tmp_path, f"topic-{number}") for number in range(3)]
    for writer in writers:
        for value in range(4):
            writer.append_records(b"%d" % value)
    consumer = Consumer(tmp_path)
    names = [f"topic-{number}" for number in range(3)]
    told = ProblemLog(logger, lambda: [*consumer.cluster.logs.source.problems])
    for name in names:
        assert consumer.fetch(name, 0, most=1).error is ErrorCode.NONE
    told.look()
    assert not caplog.messages
    for writer, name in zip(reversed(writers), reversed(names), strict=True):
        second = len(writer.batches[0])
        with writer.records_file.open("r+b") as file:
            file.seek(second + 30)
            file.write(b"????")
        time.sleep(1.1 * MAX_AGE)  # until the next look at the file
        for _ in range(2):
            assert consumer.fetch(name, 1).error is ErrorCode.CORRUPT_MESSAGE
            told.look()
        place = f"crc_mismatch: {name}/{writer.records_file.name} at byte {second}: "
        assert sum(message.startswith(place) for message in caplog.messages) == 1
    assert len(caplog.messages) == 3
