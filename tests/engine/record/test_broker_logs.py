"""Every log that a real broker wrote: each record as a consumer saw it."""

from pathlib import Path

import pytest

from engine.files.source_files import SourceRoot
from engine.record.control_records import describe_control
from engine.record.file_records import FileRecords
from engine.record.record import Record
from tests import fixtures_data
from tests.fixtures_data import TruthRecord

PARTITIONS = [
    (kind, name)
    for kind in fixtures_data.WITH_TRUTH
    for name in fixtures_data.truth_partitions(kind)
]


def as_seen(record: Record) -> TruthRecord:
    """A record in the truth's terms: librdkafka counts timestamp types from 0, whose time is 0, not -1."""
    kind = record.timestamp_type + 1
    headers = tuple((header.key.decode(), header.value) for header in record.headers)
    return TruthRecord(
        record.offset,
        kind,
        record.timestamp if kind else 0,
        record.key,
        record.value,
        headers,
        None if record.leader_epoch == -1 else record.leader_epoch,
    )


def data_records(folder: Path) -> dict[int, TruthRecord]:
    found = {}
    with SourceRoot(str(folder)) as root:
        for path in sorted(folder.glob("*.log")):
            for batch in FileRecords(root.open(path.name)).batches():
                batch.ensure_valid()
                if not batch.is_control:
                    found.update((record.offset, as_seen(record)) for record in batch.records())
    return found


@pytest.mark.parametrize(("kind", "name"), PARTITIONS)
def test_every_record_is_as_a_consumer_saw_it(kind, name):
    truth = {record.offset: record for record in fixtures_data.truth_records(kind, name)}
    found = data_records(fixtures_data.log_dir(kind) / name)
    assert {offset: found.get(offset) for offset in truth} == truth
    below_the_log_start = [offset for offset in found if offset not in truth]
    assert all(offset < min(truth) for offset in below_the_log_start)


@pytest.mark.parametrize("kind", fixtures_data.KINDS)
def test_every_control_record_has_a_meaning(kind):
    shown = []
    for path in sorted(fixtures_data.log_dir(kind).glob("*/*.log")):
        with SourceRoot(str(path.parent)) as root:
            for batch in FileRecords(root.open(path.name)).batches():
                if batch.is_control:
                    shown += [describe_control(record) for record in batch.records()]
    assert all("error" not in fields for fields in shown)
    names = {fields["type"] for fields in shown}
    assert names <= {"COMMIT", "ABORT", "LEADER_CHANGE"}
    if kind in ("current", "live"):
        assert {"COMMIT", "ABORT"} <= names
