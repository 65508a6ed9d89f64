"""Whatever is assigned and truncated, the cache holds what a dict would, and its file what it should."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engine.units import EpochEntry, TopicPartition
from engine.writing.checkpoint.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from engine.writing.state.leader_epoch_file_cache import LeaderEpochFileCache

EPOCHS = st.integers(0, 6)
OFFSETS = st.integers(0, 9)
ANY_OFFSET = st.integers(-2, 10)


class Later:
    """A scheduler whose tasks run when the machine says so."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []

    def schedule(
        self, name: str, task: Callable[[], object], delay_ms: int = 0, period_ms: int = -1
    ):
        assert "leader-epoch" in name
        assert (delay_ms, period_ms) == (0, -1)
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop()()


class LeaderEpochs(RuleBasedStateMachine):
    """`model` is what must be known, `file` what must be written."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "leader-epoch-checkpoint"
        self.later = Later()
        self.model: dict[int, int] = {}
        self.file: dict[int, int] = {}
        self.open()

    def open(self) -> None:
        self.checkpoint = LeaderEpochCheckpointFile(self.path)
        self.cache = LeaderEpochFileCache(TopicPartition("t", 0), self.checkpoint, self.later)

    def teardown(self) -> None:
        self.folder.cleanup()

    def take(self, epoch: int, offset: int) -> bool:
        latest = max(self.model, default=None)
        if epoch == latest and offset >= self.model[epoch]:
            return False
        self.model = {e: o for e, o in self.model.items() if e < epoch and o < offset}
        self.model[epoch] = offset
        return True

    @rule(epoch=EPOCHS, offset=OFFSETS)
    def assign(self, epoch: int, offset: int) -> None:
        changed = self.take(epoch, offset)
        assert self.cache.assign(epoch, offset) == changed
        if changed:
            self.file = dict(self.model)

    @rule(epochs=st.integers(1, 2), records=st.integers(0, 3))
    def change_leader(self, epochs: int, records: int) -> None:
        epoch = max(self.model, default=-1) + epochs
        offset = min(max(self.model.values(), default=0) + records, 9)
        self.assign(epoch, offset)

    @rule(entries=st.lists(st.builds(EpochEntry, EPOCHS, OFFSETS), max_size=5))
    def assign_several(self, entries: list[EpochEntry]) -> None:
        for entry in entries:
            self.take(*entry)
        self.cache.assign_all(entries)
        if entries:
            self.file = dict(self.model)

    @rule(entry=st.sampled_from([(-1, 3), (3, -1), (-1, -1)]))
    def refuse(self, entry: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="no epoch entry"):
            self.cache.assign(*entry)
        with pytest.raises(ValueError, match="no epoch entry"):
            self.cache.assign_all([EpochEntry(50, 50), EpochEntry(*entry)])

    @rule(end=ANY_OFFSET)
    def truncate_from_end(self, end: int) -> None:
        self.cache.truncate_from_end_async_flush(end)
        if end >= 0:
            self.model = {e: o for e, o in self.model.items() if o < end}

    @rule(start=ANY_OFFSET)
    def truncate_from_start(self, start: int) -> None:
        self.cache.truncate_from_start_async_flush(start)
        self.model = self.begun_at(start)

    def begun_at(self, start: int) -> dict[int, int]:
        below = [e for e, o in self.model.items() if o <= start]
        if not below:
            return self.model
        return {max(below): start} | {e: o for e, o in self.model.items() if o > start}

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.model = {}

    @rule()
    def clear_and_flush(self) -> None:
        self.cache.clear_and_flush()
        self.model, self.file = {}, {}

    @rule()
    def flush(self) -> None:
        self.cache.write_if_dir_exists()
        self.file = dict(self.model)

    @rule()
    def run_what_was_scheduled(self) -> None:
        if self.later.tasks:
            self.file = dict(self.model)
        self.later.run()

    @rule()
    def crash(self) -> None:
        self.later.tasks.clear()
        self.model = dict(self.file)
        self.open()

    @rule()
    def take_another_file(self) -> None:
        self.later.run()
        kept = self.path.read_bytes() if self.path.exists() else None
        self.path = self.path.with_name(self.path.name + "-")
        self.checkpoint = LeaderEpochCheckpointFile(self.path)
        before = self.path.with_name(self.path.name[:-1])
        self.cache = self.cache.with_checkpoint(self.checkpoint)
        self.flush()
        assert (before.read_bytes() if before.exists() else None) == kept

    @invariant()
    def the_file_is_as_it_should(self) -> None:
        assert dict(self.checkpoint.read()) == self.file

    @invariant()
    def entries_are_the_models(self) -> None:
        assert dict(self.cache.epoch_entries) == self.model
        assert self.cache.epoch_entries == sorted(self.cache.epoch_entries)
        assert self.cache.is_empty == (not self.model)
        assert self.cache.latest_epoch == max(self.model, default=None)
        assert self.cache.earliest_entry == min(self.cache.epoch_entries, default=None)

    @invariant()
    def every_epoch_is_found(self) -> None:
        for epoch in range(-2, max(self.model, default=0) + 2):
            self.look_up_epoch(epoch, 11)

    def look_up_epoch(self, epoch: int, end: int) -> None:
        below = max((e for e in self.model if e < epoch), default=None)
        above = min((e for e in self.model if e > epoch), default=None)
        assert self.cache.previous_epoch(epoch) == below
        assert self.cache.next_epoch(epoch) == above
        assert self.cache.start_offset_of(epoch) == self.model.get(epoch)
        expected = None
        if epoch != -1 and epoch == max(self.model, default=None):
            expected = (epoch, end)
        elif epoch != -1 and above is not None:
            known = epoch if epoch in self.model or below is None else below
            expected = (known, self.model[above])
        assert self.cache.end_offset_for(epoch, end) == expected

    @invariant()
    def every_offset_is_found(self) -> None:
        for start in range(-2, 11):
            epoch = max((e for e, o in self.model.items() if o <= start), default=None)
            assert self.cache.epoch_for_offset(start) == epoch


TestLeaderEpochs = LeaderEpochs.TestCase
TestLeaderEpochs.settings = settings(stateful_step_count=30, deadline=None)
