"""A consumer that waits at the end of a growing log gets each new record once, in order, soon."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

from engine.record.memory_records import MemoryRecords
from tests.fixtures_data import copy_of, logs
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import serving

FETCH = 1


def fetched(connection: Connection, offset: int, wait: int) -> list[int]:
    """Offsets of the records that one fetch gives."""
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    answer = connection.ask(
        FETCH, 12, replicaId=-1, maxWaitMs=wait, minBytes=1, maxBytes=1 << 20, sessionEpoch=-1,
        topics=[{"topic": "orders", "partitions": [partition]}],
    )  # fmt: skip
    records = MemoryRecords(answer["responses"][0]["partitions"][0]["records"] or b"")
    found = [record.offset for batch in records.batches() for record in batch.records()]
    return [each for each in found if each >= offset]


def test_appended_batches_reach_a_waiting_consumer_within_a_second(tmp_path: Path) -> None:
    copy = copy_of("current", tmp_path, ["orders-0"])
    path = copy / "orders-0" / logs("current", "orders-0")[-1].name
    data = path.read_bytes()
    batches = list(MemoryRecords(data).batches())
    places = [0]
    for batch in batches:
        places.append(places[-1] + batch.size)
    path.write_bytes(data[: places[-4]])
    with serving(copy, tmp_path) as served, Connection(served) as connection:
        offset = batches[-3].base_offset
        for start, end in pairwise(places[-4:]):
            with path.open("ab") as file:
                # The batch comes in two writes: its first half alone is not served.
                file.write(data[start : start + 40])
                file.flush()
                assert fetched(connection, offset, 300) == []
                file.write(data[start + 40 : end])
            began = time.monotonic()
            got = fetched(connection, offset, 5_000)
            assert time.monotonic() - began < 1
            assert got == list(range(offset, got[-1] + 1))
            offset = got[-1] + 1
    assert offset == 1000
