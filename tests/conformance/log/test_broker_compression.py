"""What Kafka's BrokerCompressionTest asks: the log's codec counts, or the producer's where it says so."""

from __future__ import annotations

import pytest

from engine.broker.log.unified_log import UnifiedLog
from engine.coding.compression import CompressionType
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from engine.writing.log_config import LogConfig
from tests.clocks import MockClock, MockScheduler

CODECS = {
    "uncompressed": CompressionType.NONE,
    "zstd": CompressionType.ZSTD,
    "lz4": CompressionType.LZ4,
    "snappy": CompressionType.SNAPPY,
    "gzip": CompressionType.GZIP,
    "producer": None,
}


@pytest.mark.conformance("BrokerCompressionTest.testBrokerSideCompression")
@pytest.mark.parametrize("brokers", CODECS)
@pytest.mark.parametrize("producers", CompressionType)
def test_broker_side_compression(tmp_path, brokers, producers):
    clock = MockClock(0)
    config = LogConfig.from_properties({"compression.type": brokers})
    records = records_of(
        SimpleRecord(value=b"hello"), SimpleRecord(value=b"there"), compression=producers
    )
    with UnifiedLog.create(tmp_path / "t-0", config, MockScheduler(clock), clock=clock) as log:
        log.append_as_leader(records, 0)
        first = next(iter(log.read(0, 4096).records.batches()))
        wanted = CODECS[brokers]
        assert first.compression is (producers if wanted is None else wanted)
        assert [record.value for record in first.records()] == [b"hello", b"there"]
