"""What Kafka's EndTransactionMarkerTest asks of writing."""

import pytest

from engine.coding.varint import size_of_varint, size_of_varlong
from engine.record.control_records import KEY_SIZE, ControlRecordType, EndTransactionMarker
from engine.writing.records.building import end_transaction_marker
from engine.writing.records.encoding import BATCH_OVERHEAD


@pytest.mark.conformance("EndTransactionMarkerTest.testUnknownControlTypeNotAllowed")
def test_unknown_control_type_not_allowed():
    with pytest.raises(ValueError, match="UNKNOWN does not end a transaction"):
        EndTransactionMarker(ControlRecordType.UNKNOWN, 24)


@pytest.mark.conformance("EndTransactionMarkerTest.testEndTxnMarkerValueSize")
@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_end_txn_marker_value_size(kind):
    marker = EndTransactionMarker(kind, 1)
    value_size = len(marker.value())
    total = 1 + size_of_varint(0) + size_of_varlong(0)
    total += size_of_varint(KEY_SIZE) + KEY_SIZE
    total += size_of_varint(value_size) + value_size + size_of_varint(0)
    made = end_transaction_marker(marker, producer_id=1, producer_epoch=0, timestamp=5)
    assert made.size - BATCH_OVERHEAD == size_of_varint(total) + total
