"""Groups, transactions, the cluster and problems as objects that go to other threads and processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import kafkafs
from kafkafs.api.opened_source import OpenedSource
from tests.fixtures_data import copy_of, log_dir


@pytest.fixture(scope="module")
def current() -> Iterator[OpenedSource]:
    with kafkafs.open(log_dir("current")) as source:
        yield source


def test_groups_and_transactions_are_the_same_in_another_process(current: OpenedSource) -> None:
    for mapping in (current.groups, current.transactions):
        assert len(mapping)
        assert dict(pickle.loads(pickle.dumps(mapping))) == dict(mapping)
    early = current.groups.at(0)
    assert list(pickle.loads(pickle.dumps(early))) == list(early)


def test_the_cluster_is_the_same_in_another_process(current: OpenedSource) -> None:
    cluster = current.cluster
    assert cluster is not None
    copy = pickle.loads(pickle.dumps(cluster))
    assert copy.topics == cluster.topics
    assert copy.partitions == cluster.partitions
    assert repr(copy) == repr(cluster) == f"<cluster below offset {cluster.next_offset}: 22 topics>"


def test_threads_share_groups_transactions_and_the_cluster(current: OpenedSource) -> None:
    def seen(_: int) -> tuple[list[str], list[str], int]:
        with kafkafs.open(log_dir("current")) as source:
            cluster = source.cluster
            assert cluster is not None
            return list(current.groups), list(current.transactions), len(cluster.topics)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(seen, range(16)))
    assert all(each == found[0] for each in found)


def test_a_problem_is_an_object_with_its_place(tmp_path: Path) -> None:
    folder = copy_of("sample", tmp_path)
    log = min((folder / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    with kafkafs.open(folder) as source:
        assert source.scan("orders", on_corrupt="skip").count() < 2000
        (problem,) = source.problems
        assert isinstance(problem, kafkafs.SourceProblem)
        assert (problem.partition, problem.position) == ("orders-0", 0)
        assert problem.kind == "crc_mismatch"
        assert problem.file == f"orders-0/{log.name}"
        assert str(problem) == f"orders-0/{log.name}: byte 0: {problem.reason}"
        assert pickle.loads(pickle.dumps(problem)) == problem
        assert {problem} == {pickle.loads(pickle.dumps(problem))}


def test_offsets_are_numbers_of_any_kind(current: OpenedSource) -> None:
    partition = current["orders", 0]
    assert partition[np.int64(5)] == partition[5]
    with pytest.raises(TypeError, match="offsets are numbers, or ranges of them, not '5'"):
        partition["5"]  # type: ignore[call-overload]
