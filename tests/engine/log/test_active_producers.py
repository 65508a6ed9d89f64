"""The producers of a log are those that the broker wrote into its newest snapshot."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.files.file_names import producer_snapshot_name
from engine.log.log_directory import open_source
from engine.log.view.active_producers import active_producers
from engine.log.view.log_view import LogView
from engine.state.producer_snapshot import ProducerSnapshot
from engine.state.producer_state_entry import ProducerStateEntry
from tests.fixtures_data import copy_of, log_dir


def view_of(folder: Path, name: str) -> LogView:
    return open_source(str(folder)).partitions()[name].view()


def facts(entry: ProducerStateEntry) -> tuple[object, ...]:
    """What a snapshot keeps of a producer."""
    return (
        entry.producer_epoch,
        entry.coordinator_epoch,
        entry.last_timestamp,
        entry.current_txn_first_offset,
        entry.last_sequence,
        entry.last_data_offset,
        entry.last_offset_delta,
    )


def truth(name: str) -> dict[int, tuple[object, ...]]:
    """The producers in the snapshot at the log end, which the broker wrote when it stopped."""
    view = view_of(log_dir("current"), name)
    path = log_dir("current") / name / producer_snapshot_name(view.log_end_offset)
    return {entry.producer_id: facts(entry) for entry in ProducerSnapshot.parse(path.read_bytes())}


@pytest.mark.parametrize("name", ["txn-0", "open-txn-0"])
@pytest.mark.parametrize("kept", [0, 1, 2, 9], ids=lambda count: f"{count}-snapshots")
def test_batches_after_a_snapshot_lead_to_the_next_one(tmp_path, name, kept):
    copy = copy_of("current", tmp_path, [name])
    for path in sorted((copy / name).glob("*.snapshot"))[kept:]:
        path.unlink()
    found = active_producers(view_of(copy, name))
    assert {number: facts(entry) for number, entry in found.items()} == truth(name)
    assert found


def test_a_damaged_snapshot_is_passed_over(tmp_path):
    copy = copy_of("current", tmp_path, ["txn-0"])
    newest = max((copy / "txn-0").glob("*.snapshot"))
    newest.write_bytes(newest.read_bytes()[:-1])
    view = view_of(copy, "txn-0")
    found = active_producers(view)
    assert {number: facts(entry) for number, entry in found.items()} == truth("txn-0")
    assert [each["kind"] for each in view.log.problems.entries()] == ["producer_snapshot"]
