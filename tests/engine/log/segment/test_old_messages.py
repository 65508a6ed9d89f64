"""In magic 0 and 1 the bits of control records, transactions and delete horizons mean nothing."""

from __future__ import annotations

import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.columns.batch_table import holds_control, holds_transactional
from engine.log.segment.scan import BatchRun, scan
from engine.log.view.transactions import events
from engine.rebuild.assembly.pieces import ScannedBytes
from engine.replay.partition_records import ReplayedRecord, records_of_run
from tests import builders

FLAGS = 0x70


@pytest.fixture(params=[0, 1])
def run(request: pytest.FixtureRequest) -> BatchRun:
    data = builders.message(0, b"k", b"v", magic=request.param, attributes=FLAGS)
    data += builders.batch([builders.Rec(b"w", b"k")], 1)
    (found,) = scan(ScannedBytes(data), 0, len(data), path="")
    assert isinstance(found, BatchRun)
    return found


def test_no_message_is_a_control_record_or_of_a_transaction(run: BatchRun) -> None:
    assert not holds_control(run.table).any()
    assert not holds_transactional(run.table).any()
    assert events(run) == []


def test_each_message_is_replayed_as_a_record(run: BatchRun) -> None:
    records = list(records_of_run(run, DEFAULT_BUDGETS, "t-0", ""))
    assert [(type(each), each.offset) for each in records] == [
        (ReplayedRecord, 0),
        (ReplayedRecord, 1),
    ]
