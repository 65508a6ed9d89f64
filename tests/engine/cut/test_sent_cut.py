"""A cut that was sent to another process shows the same logs, ends and fates there."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import Any

import pytest

from engine.cut.moment import Moment
from engine.cut.opening import cut_of, open_at
from engine.cut.sent_cut import SentCut
from engine.log.log_directory import LogSource
from engine.replicas.cluster_source import open_cluster
from engine.units import TopicPartition
from tests.fixtures_data import log_dir

CURRENT = str(log_dir("current"))


def shown(source: LogSource) -> dict[str, Any]:
    """End and fates of each log."""
    logs = source.partitions().items()
    return {name: ((view := log.view()).log_end_offset, view.ended) for name, log in logs}


@pytest.mark.parametrize(
    "moment", [Moment(deleted="doomed"), Moment(record=(TopicPartition("txn", 0), 300))], ids=str
)
def test_a_sent_cut_shows_the_same_logs(moment: Moment) -> None:
    with closing(open_at(CURRENT, moment)) as source:
        cut = cut_of(source)
        assert cut is not None
        sent = pickle.loads(pickle.dumps(SentCut(source, cut)))
        with closing(open_cluster(CURRENT, cut=sent)) as again:
            assert shown(again) == shown(source)
            assert shown(again) != shown(open_cluster(CURRENT))
