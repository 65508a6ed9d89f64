"""Directories that real brokers have just written show what their consumers saw."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from engine.log.log_directory import open_source
from kafkafs.tree.tree import Tree
from tests.kafka import clients, conftest
from tests.kafka.conftest import Written
from tests.kafka.mounted import Mounted
from tests.kafka.record_lines import assert_same_records
from tests.kafka.truth import PartitionTruth
from tests.kafka.views import MountView, TreeView, View

KINDS = ("current", "live", "legacy", "crashed")
FIELDS_READ = 60


class Shown(NamedTuple):
    """A directory, and one way to look at it."""

    written: Written
    view: View


@pytest.fixture(
    scope="module", params=[f"{kind}-{how}" for kind in KINDS for how in ("tree", "mount")]
)
def shown(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    kind, how = request.param.split("-")
    written = request.getfixturevalue(kind)
    if how == "mount":
        with Mounted(written.log_dir, tmp_path_factory.mktemp("mount") / "tree") as mounted:
            yield Shown(written, MountView(mounted.path))
    else:
        source = open_source([str(written.log_dir)])
        try:
            yield Shown(written, TreeView(Tree(source)))
        finally:
            source.close()


def stream(shown: Shown, truth: PartitionTruth, folder: str) -> bytes:
    """All segments' lines of records/ or committed/, in order."""
    path = f"{truth.folder}/{folder}"
    return b"".join(shown.view.read(f"{path}/{name}") for name in sorted(shown.view.names(path)))


def test_every_partition_is_in_the_root(shown):
    assert set(shown.written.truth) <= set(shown.view.names(""))


def test_records_hold_what_a_consumer_got(shown):
    for truth in shown.written.truth.values():
        assert_same_records(stream(shown, truth, "records"), truth, truth.records)


def test_committed_holds_what_a_read_committed_consumer_got(shown):
    for truth in shown.written.truth.values():
        assert_same_records(stream(shown, truth, "committed"), truth, truth.committed)


def test_a_range_over_everything_holds_what_a_consumer_got(shown):
    for truth in shown.written.truth.values():
        if truth.latest > truth.earliest:
            path = f"{truth.folder}/offset/{truth.earliest}..{truth.latest}"
            assert_same_records(shown.view.read(path), truth, truth.records)


def test_earliest_and_latest_are_the_first_and_the_last_record(shown):
    for truth in shown.written.truth.values():
        offset = f"{truth.folder}/offset"
        if truth.latest == truth.earliest:
            assert "earliest" not in shown.view.names(offset)
            continue
        assert int(shown.view.link(f"{offset}/latest")) == truth.latest - 1, truth.folder
        earliest = int(shown.view.link(f"{offset}/earliest"))
        assert truth.earliest <= earliest <= truth.records[0].offset, truth.folder
        assert shown.view.read(f"{offset}/{earliest}")


def test_instants_lead_to_the_record_that_the_broker_names(shown):
    for truth in shown.written.truth.values():
        for timestamp in truth.for_times:
            path = f"{truth.folder}/time/{timestamp}"
            try:
                found = int(shown.view.link(path))
            except FileNotFoundError:
                found = clients.NO_OFFSET
            assert found == truth.right_answer(timestamp), path


def test_keys_and_values_are_the_exact_bytes(shown):
    choice = random.Random(conftest.SEED)
    for truth in shown.written.truth.values():
        for record in choice.sample(truth.records, min(FIELDS_READ, len(truth.records))):
            for suffix, exact in (("key", record.key), ("value", record.value)):
                path = f"{truth.folder}/offset/{record.offset}.{suffix}"
                if exact is None:
                    with pytest.raises(FileNotFoundError):
                        shown.view.read(path)
                else:
                    assert shown.view.read(path) == exact, path


def test_a_record_has_its_line_and_its_size(shown):
    choice = random.Random(conftest.SEED)
    for truth in shown.written.truth.values():
        for record in choice.sample(truth.records, min(FIELDS_READ, len(truth.records))):
            path = f"{truth.folder}/offset/{record.offset}"
            text = shown.view.read(path)
            assert shown.view.size(path) == len(text)
            assert_same_records(text, truth, [record])


def test_offsets_outside_the_log_and_holes_are_not_there(shown):
    for truth in shown.written.truth.values():
        outside = {truth.earliest - 1, truth.latest, truth.latest + 1000} - {-1}
        for offset in outside:
            with pytest.raises(FileNotFoundError):
                shown.view.read(f"{truth.folder}/offset/{offset}")


def test_offsets_that_compaction_took_are_not_there(shown):
    for name in ("compacted-0", "v1-compacted-0"):
        truth = shown.written.truth.get(name)
        if truth is None:
            continue
        gone = set(range(truth.earliest, truth.latest)) - {
            record.offset for record in truth.records
        }
        assert gone
        for offset in sorted(gone)[:: max(1, len(gone) // FIELDS_READ)]:
            with pytest.raises(FileNotFoundError):
                shown.view.read(f"{name}/offset/{offset}")


def test_segments_are_the_files_byte_for_byte(shown):
    for truth in shown.written.truth.values():
        folder = shown.written.log_dir / truth.folder
        for name in shown.view.names(f"{truth.folder}/segments"):
            if name.endswith((".log", ".index", ".timeindex", ".txnindex")):
                path = f"{truth.folder}/segments/{name}"
                assert shown.view.read(path) == (folder / name).read_bytes(), path
