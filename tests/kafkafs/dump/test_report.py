"""What is said at the end of a dump, and in which order."""

from __future__ import annotations

import pytest

from kafkafs.dump import report
from kafkafs.dump.findings import Contradiction, Mismatch
from kafkafs.dump.report import DumpReport, in_java_order, java_hash


def test_hashes_are_javas() -> None:
    assert java_hash("ab") == 97 * 31 + 98
    assert java_hash("\N{GRINNING FACE}") == (0xD83D * 31 + 0xDE00) & 0xFFFFFFFF


def test_files_come_in_the_order_of_a_java_map() -> None:
    paths = [f"/tmp/orders-{number}" for number in range(14)]
    shown = [path for path, _ in in_java_order(dict.fromkeys(paths, (1, 2)))]
    paths.reverse()
    assert shown == sorted(paths, key=lambda path: (java_hash(path) ^ java_hash(path) >> 16) & 31)
    assert shown != paths


def test_of_two_files_in_a_slot_the_one_that_came_last_is_first() -> None:
    folder = "/tmp/pytest-of-root/pytest-294/test_the_text_of_what_a_broker3/current/compacted-0"
    paths = [f"{folder}/{offset:020}.log" for offset in (0, 1000, 1240)]  # as Kafka 4.3.1 said it
    assert [path for path, _ in in_java_order(dict.fromkeys(paths, (1, 2)))] == paths[::-1]


def test_a_map_grows_when_it_is_asked_once_more() -> None:
    paths = [f"/tmp/orders-{number}" for number in range(13)]
    once = [path for path, _ in in_java_order(dict.fromkeys(paths, (1,)))]
    paths.reverse()
    assert once == sorted(paths, key=lambda path: (java_hash(path) ^ java_hash(path) >> 16) & 15)


def test_what_is_too_much_to_keep_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_PAIRS", 2)
    said: list[bytes] = []
    made = DumpReport(lambda _: None, said.append)
    for at in range(5):
        made.contradict("/f", Contradiction(Mismatch.TIMESTAMP, 0, at, -1))
    made.finish()
    lines = b"".join(said).decode().splitlines()
    assert [line for line in lines if "Index" in line] == [
        f"  Index timestamp: {at}, log timestamp: -1" for at in range(5)
    ]
    assert made.findings == 5
