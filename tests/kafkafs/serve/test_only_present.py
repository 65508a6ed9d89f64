"""Partitions that the source lacks have no leader, or clients are told nothing of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import serving

METADATA = 3


@pytest.mark.parametrize(
    ("options", "leaders"), [((), {0: 1, 1: -1, 2: -1}), (("--only-present",), {0: 1})]
)
def test_partitions_without_a_log_are_leaderless_or_hidden(
    tmp_path: Path, options: tuple[str, ...], leaders: dict[int, int]
) -> None:
    copy = copy_of("current", tmp_path, ["orders-0", "__cluster_metadata-0"])
    with serving(copy, tmp_path, *options) as served, Connection(served) as connection:
        answer = connection.ask(METADATA, 9, topics=[{"name": "orders"}])
    (topic,) = answer["topics"]
    found = {each["partitionIndex"]: each["leaderId"] for each in topic["partitions"]}
    assert found == leaders
