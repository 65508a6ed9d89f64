"""A client of `kafkafs serve` gets the records of what people have in hand, or the server says why it does not start."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.kafkafs.serve.serving import serving
from tests.kafkafs.sources_at_hand import Source, at_hand

pytest.importorskip("kafka", reason="kafka-python is not installed")
__all__ = ["at_hand"]
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""kafka-python leaves sockets to the garbage collector."""


def test_a_client_gets_the_records_or_the_server_says_why_not(
    at_hand: tuple[Path, Source], tmp_path: Path
) -> None:
    path, expected = at_hand
    if expected.topic is None:
        command = [sys.executable, "-m", "kafkafs", "serve", path, "--listen", "127.0.0.1:0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 3
        assert any(words in done.stderr for words in expected.refusal.split("|")), done.stderr
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its schemas
        from kafka import KafkaConsumer, TopicPartition
    with serving(path, tmp_path) as served:
        consumer = KafkaConsumer(
            bootstrap_servers=served.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=5
        )
        assert consumer.topics() == {expected.topic}
        place = TopicPartition(expected.topic, expected.number)
        assert expected.number in consumer.partitions_for_topic(expected.topic)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        records = 0
        while consumer.position(place) < end:
            records += sum(map(len, consumer.poll(timeout_ms=200).values()))
        consumer.close()
    assert records == expected.records
