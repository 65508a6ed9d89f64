"""Message sets of magic 0 and 1: a wrapper's header tells neither its first offset nor how many records it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.rebuild.rebuilding import rebuild
from tests.engine.rebuild.made_logs import facts_of, holes
from tests.fixtures_data import copy_of, log_dir, truth_partitions, truth_records


def test_records_of_compressed_message_sets_are_counted_one_by_one(tmp_path: Path) -> None:
    result = rebuild(str(log_dir("legacy")), str(tmp_path / "target"))
    counts = {each["partition"]: each["records"] for each in result.partitions}
    assert counts == {
        name: len(truth_records("legacy", name)) for name in truth_partitions("legacy")
    }


@pytest.mark.parametrize("partition", ["v0-gzip-0", "v0-lz4-0", "v1-snappy-0", "v1-recoded-lz4-0"])
def test_a_damaged_message_set_costs_its_own_offsets_and_a_replica_gives_them_all(
    tmp_path: Path, partition: str
) -> None:
    source = copy_of("legacy", tmp_path, [partition])
    expected = facts_of(source, partition)
    [path] = (source / partition).glob("*.log")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    result = rebuild(str(source), str(tmp_path / "alone"))
    lost = expected.keys() - facts_of(tmp_path / "alone", partition).keys()
    assert holes(result.partitions[0]) == [(min(lost), max(lost) + 1)]
    assert len(lost) == max(lost) + 1 - min(lost)
    merged = rebuild(
        str(source), str(tmp_path / "merged"), merge=[str(log_dir("legacy") / partition)]
    )
    assert not merged.lost_something
    assert merged.partitions[0]["losses"] == []
    assert facts_of(tmp_path / "merged", partition) == expected
