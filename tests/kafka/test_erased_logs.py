"""A real broker starts on log dirs without chosen records: consumers read exactly the rest, and producers go on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from engine.erase.choice import ChosenRecords
from engine.erase.erasing import erase
from engine.erase.found_files import FoundFile
from engine.log.segment.scan import BatchRun
from tests.fixtures_data import TruthRecord
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import Written
from tests.kafka.truth import PartitionTruth, truth_of


def is_erased(offset: int) -> bool:
    """Whether a record at an offset is erased: in runs, so that whole batches are, and single records."""
    return offset % 16 < 6 or offset % 16 == 9


class ChosenOffsets:
    """Chooses records of all topics but Kafka's own."""

    undecided = 0

    def takes(self, file: FoundFile) -> bool:
        return file.log is not None and not file.log.topic_partition.topic.startswith("__")

    def of(self, _: FoundFile, run: BatchRun) -> Iterator[ChosenRecords]:
        for columns in run.columns():
            offsets = columns.offset % 16
            yield ChosenRecords(run.table, columns, np.flatnonzero((offsets < 6) | (offsets == 9)))


class Served(NamedTuple):
    """A broker on the erased log dir, and what consumers read of it before anybody produced."""

    broker: Broker
    truth: dict[str, PartitionTruth]


@pytest.fixture(scope="module")
def erased(current: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("erased")
    source = shutil.copytree(current.log_dir, home / "source")
    made = erase([str(source)], str(home / "target"), ChosenOffsets())
    assert not made.report["unreached"]
    [name] = made.report["sources"]
    Path(home / "target" / name).rename(home / "data")
    with Broker(home) as broker:
        yield Served(broker, truth_of(broker.bootstrap))


def rest(records: list[TruthRecord]) -> list[TruthRecord]:
    return [each for each in records if not is_erased(each.offset)]


def test_consumers_of_both_isolation_levels_read_exactly_the_rest(
    current: Written, erased: Served
) -> None:
    served = erased.truth
    assert served.keys() >= {name for name, each in current.truth.items() if not each.internal}
    gone = 0
    for name, truth in current.truth.items():
        if truth.internal:
            assert served[name].records[: len(truth.records)] == truth.records, name
            continue
        got = served[name]
        assert (got.earliest, got.latest) == (truth.earliest, truth.latest), name
        assert got.records == rest(truth.records), name
        assert got.committed == rest(truth.committed), name
        gone += len(truth.records) - len(got.records)
    assert gone > 100


def test_an_idempotent_and_a_transactional_producer_go_on(current: Written, erased: Served) -> None:
    bootstrap = erased.broker.bootstrap
    given: list[int] = []
    producer = clients.producer(bootstrap, enable_idempotence=True)
    ending = {"on_delivery": lambda error, message: given.append(error or message.offset())}
    producer.produce("orders", b"next", partition=0, **ending)
    assert producer.flush(60) == 0
    latest = current.truth["orders-0"].latest
    assert given == [latest]
    for number in range(2):
        writer = clients.producer(bootstrap, transactional_id="tx-0")
        writer.init_transactions(60)
        writer.begin_transaction()
        writer.produce("txn", b"in a transaction %d" % number, partition=0)
        writer.commit_transaction(60)
    with clients.Reader(bootstrap, committed=True) as reader:
        assert reader.bounds("txn", 0)[1] >= current.truth["txn-0"].latest + 4
