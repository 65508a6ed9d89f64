"""Our manager and a broker take turns at one log dir; neither touches it while the other is there."""

from __future__ import annotations

import pytest

from engine.broker.log_dirs.log_dirs import LogManager
from engine.errors import DirectoryLockedError
from engine.files.file_names import CLEAN_SHUTDOWN
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.units import TopicPartition
from engine.writing.scheduler import ThreadScheduler
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.truth import PartitionTruth, truth_of

TOPIC = "shared"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(2)]


def produce(broker: Broker, *values: str) -> None:
    sender = clients.producer(broker.bootstrap)
    for partition in PARTITIONS:
        for value in values:
            sender.produce(TOPIC, value.encode(), partition=partition.partition)
    assert sender.flush(60) == 0


def values_of(truth: dict[str, PartitionTruth]) -> list[list[str]]:
    return [
        [(record.value or b"").decode() for record in truth[str(partition)].records]
        for partition in PARTITIONS
    ]


@pytest.mark.parametrize("how_left", ["stopped", "killed"])
def test_a_broker_goes_on_where_our_manager_stopped(tmp_path, how_left):
    broker = Broker(tmp_path)
    with broker:
        clients.create_topic(broker.bootstrap, TOPIC, len(PARTITIONS), {"segment.ms": 1000})
        produce(broker, "a", "b")
        before = truth_of(broker.bootstrap)
        with ThreadScheduler() as scheduler, pytest.raises(DirectoryLockedError) as caught:
            LogManager([broker.log_dir], scheduler)
        assert caught.value.pid == broker.pid
        if how_left == "killed":
            broker.kill()
    assert (broker.log_dir / CLEAN_SHUTDOWN).exists() == (how_left == "stopped")
    with ThreadScheduler() as scheduler, LogManager([broker.log_dir], scheduler) as manager:
        for partition in PARTITIONS:
            log = manager.registry.get(partition)
            assert log is not None
            assert log.log_end_offset == before[str(partition)].latest
            log.append_as_leader(records_of(SimpleRecord(None, b"ours", clients.now())), 0)
            log.roll()
            log.append_as_leader(records_of(SimpleRecord(None, b"too", clients.now())), 0)
            log.update_high_watermark(log.log_end_offset)
    assert (broker.log_dir / CLEAN_SHUTDOWN).exists()
    with broker:
        produce(broker, "c")
        after = truth_of(broker.bootstrap)
    assert values_of(after) == [["a", "b", "ours", "too", "c"]] * 2
