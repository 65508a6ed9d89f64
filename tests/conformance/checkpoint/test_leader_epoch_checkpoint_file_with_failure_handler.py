"""What Kafka's LeaderEpochCheckpointFileWithFailureHandlerTest asks."""

from __future__ import annotations

import pytest

from engine.units import EpochEntry
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile

EPOCHS = [EpochEntry(0, 1), EpochEntry(1, 2), EpochEntry(2, 3)]


@pytest.mark.conformance(
    "LeaderEpochCheckpointFileWithFailureHandlerTest.shouldPersistAndOverwriteAndReloadFile"
)
def test_should_persist_and_overwrite_and_reload_file(tmp_path):
    checkpoint = LeaderEpochCheckpointFile(tmp_path / "checkpoint")
    checkpoint.write(EPOCHS)
    assert checkpoint.read() == EPOCHS
    other = [EpochEntry(3, 4), EpochEntry(4, 5)]
    checkpoint.write(other)
    assert checkpoint.read() == other


@pytest.mark.conformance(
    "LeaderEpochCheckpointFileWithFailureHandlerTest.shouldRetainValuesEvenIfCheckpointIsRecreated"
)
def test_should_retain_values_even_if_checkpoint_is_recreated(tmp_path):
    LeaderEpochCheckpointFile(tmp_path / "checkpoint").write(EPOCHS)
    assert LeaderEpochCheckpointFile(tmp_path / "checkpoint").read() == EPOCHS
