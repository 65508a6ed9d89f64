"""The quick way of Fetch gives the bytes that Python gives, or leaves the request to it."""

from __future__ import annotations

import os
import random
import time
from random import Random

import pytest

from engine.index.offset_index import ENTRY
from engine.log.partition_log import MAX_AGE
from engine.log.segment.open_segments import SMALL_INDEX
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.quick import extension
from kafkafs.serve.records.conversions import OldFormats
from kafkafs.serve.records.partition_fetch import FetchRules
from tests.builders import Rec, batch
from tests.engine.log.folders import LogWriter
from tests.fixtures_data import copy_of, log_dir, logs
from tests.kafkafs.serve.both_ways import VERSIONS, BothWays, Requests
from tests.kafkafs.serve.connection import request

pytestmark = pytest.mark.skipif(extension is None, reason="the extension is not built")

REQUESTS = 150
NEWEST = VERSIONS[-1]


def fetch(offset: int, *, topic: str = "orders", most: int = 1 << 20, version: int = 11) -> bytes:
    """A Fetch of a topic's first partition, without its length."""
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": most}
    return request(
        Api.FETCH, version, 1, replicaId=-1, minBytes=1, maxBytes=1 << 20, sessionEpoch=-1,
        topics=[{"topic": topic, "partitions": [partition]}],
    )[4:]  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["current", "legacy", "crashed"])
def test_random_requests_have_the_answers_of_python(kind, version):
    ways = BothWays(log_dir(kind), snapshot=True)
    chance = Random(version)
    asked = Requests(ways.cluster, version, chance)
    random.seed(version)
    quick = 0
    for _ in range(REQUESTS):
        frame = asked.next()
        answers = ways.ask(frame)
        assert answers.got == answers.expected, frame.hex()
        quick += answers.is_quick
        asked.heard(answers.expected)
    assert quick > REQUESTS // 20


def test_positions_of_a_large_index_have_the_answers_of_python(tmp_path):
    writer = LogWriter(tmp_path, "orders-0")
    count = 3 * SMALL_INDEX // ENTRY.size
    writer.append(*(batch([Rec(b"v")], offset) for offset in range(count)))
    writer.roll(index_interval=1)
    ways = BothWays(tmp_path, snapshot=True)
    chance = Random(4)
    quick = 0
    for _ in range(40):
        offset = chance.randrange(count)
        for _ in range(20):
            most = chance.randrange(1, 5_000)
            answers = ways.ask(fetch(offset, most=most))
            assert answers.got == answers.expected
            quick += answers.is_quick
            offset += chance.randrange(1, 200)
    assert quick > 600


@pytest.mark.parametrize("rules", [FetchRules(old_formats=each) for each in OldFormats])
def test_old_formats_are_converted_or_refused_as_the_operator_chose(rules):
    ways = BothWays(log_dir("legacy"), rules, snapshot=True)
    for topic in ("v0-none", "v1-lz4"):
        for _ in range(3):
            answers = ways.ask(fetch(0, topic=topic))
            assert answers.got == answers.expected


def test_the_second_request_is_answered_the_quick_way():
    ways = BothWays(log_dir("current"))
    assert [ways.ask(fetch(0)).is_quick for _ in range(3)] == [False, True, True]


def test_a_request_at_the_log_end_is_left_to_python_which_waits():
    ways = BothWays(log_dir("current"), snapshot=True)
    ways.ask(fetch(0))
    answers = ways.ask(fetch(1000))
    assert (answers.is_quick, answers.got) == (False, answers.expected)


def test_damage_behind_good_batches_is_told_by_python(tmp_path):
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[0].name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ways = BothWays(copy, snapshot=True)
    seen = set()
    for offset in range(0, 1000, 5):
        for _ in range(2):
            answers = ways.ask(fetch(offset))
            assert answers.got == answers.expected, offset
            seen.add(answers.is_quick)
    assert seen == {True, False}


def test_another_file_under_the_name_of_a_segment_is_not_served_as_proven(tmp_path):
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[0].name
    ways = BothWays(copy, snapshot=True)
    assert ways.ask(fetch(0)).got == (good := ways.ask(fetch(0))).got
    assert good.is_quick
    broken = bytearray(path.read_bytes())
    broken[100] ^= 1
    other = tmp_path / "other"
    other.write_bytes(broken)
    os.replace(other, path)
    log = ways.cluster.log("orders", 0)
    assert log is not None
    for segment in log.view().segments_from(0):
        segment.close()  # as a busy server does with files above its limit
    answers = ways.ask(fetch(0))
    assert not answers.is_quick
    assert bytes(broken[:200]) not in answers.got


def test_records_that_a_broker_appends_are_served_after_the_next_look(tmp_path):
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[-1].name
    data = path.read_bytes()
    *_, start, end = batch_ends(data)
    path.write_bytes(data[:start])
    ways = BothWays(copy)
    base = int.from_bytes(data[start : start + 8], "big")
    assert [ways.ask(fetch(base - 1)).is_quick for _ in range(2)] == [False, True]
    with path.open("ab") as file:
        file.write(data[start:end])
    time.sleep(2 * MAX_AGE)
    answers = ways.ask(fetch(base - 1))
    assert not answers.is_quick
    assert answers.got == answers.expected
    assert data[start:end] in answers.got
    assert ways.ask(fetch(base - 1)) == answers._replace(is_quick=True)


def test_one_request_looks_at_a_log_again_while_others_go_on(tmp_path):
    ways = BothWays(copy_of("current", tmp_path, ["orders-0"]))
    scratch = extension.Scratch()

    def are_quick(count: int) -> list[bool]:
        return [ways.quick.answer(fetch(0), scratch)[0] is not None for _ in range(count)]

    for _ in range(20):  # in case of a pause of this process
        ways.ask(fetch(0))
        found = are_quick(1)
        time.sleep(1.01 * MAX_AGE)
        found += are_quick(3)
        if found == [True, False, True, True]:
            break
    assert found == [True, False, True, True]
    time.sleep(MAX_AGE)
    assert are_quick(2) == [False, False]
    assert ways.ask(fetch(0)).got == ways.ask(fetch(0)).expected


def batch_ends(data: bytes) -> list[int]:
    """The positions behind the batches of a records file."""
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + 12 + int.from_bytes(data[ends[-1] + 8 : ends[-1] + 12], "big"))
    return ends
