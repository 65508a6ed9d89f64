"""At any moment a transaction is in all its partitions or in none; at a freeze point the ends are those noted."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from engine.cut.cluster_cut import ClusterCut
from engine.cut.moment import Moment
from engine.cut.opening import cut_of, open_at
from engine.log.log_directory import LogSource
from engine.log.segment.scan import BatchRun
from engine.record.fate import Fate
from tests.engine.cut.histories import PARTITIONS, History, Transaction, make_history


def opened(history: History, time: int) -> tuple[LogSource, ClusterCut]:
    """The source as of a time, and its cut."""
    source = open_at(str(history.folder), Moment(time=time))
    cut = cut_of(source)
    assert cut is not None
    return source, cut


def committed(source: LogSource) -> dict[str, set[int]]:
    """The offsets that a read_committed reader sees, by partition."""
    found: dict[str, set[int]] = {}
    for name, log in source.partitions().items():
        view = log.view()
        assert view.last_stable_offset == view.log_end_offset
        seen = found[name] = set()
        for segment, item in view.runs():
            assert isinstance(item, BatchRun)
            fates = view.fates(segment, item)
            for row, facts in enumerate(item.table):
                if fates is None or fates[row] in (Fate.COMMITTED, 0):
                    seen |= set(range(facts["base_offset"], facts["last_offset"] + 1))
    return found


def is_torn(transaction: Transaction, seen: dict[str, set[int]]) -> bool:
    """Whether some of a transaction's records are seen, and others are not."""
    offsets = [(name, at) for name, where in transaction.records.items() for at, _ in where]
    shown = sum(at in seen[name] for name, at in offsets)
    return 0 < shown < len(offsets)


def peers(history: History, time: int) -> int:
    """How many transactions the peers' rule tears: committed records, filtered by their timestamps."""
    torn = 0
    for each in history.transactions:
        stamps = [stamp for where in each.records.values() for _, stamp in where]
        shown = sum(stamp <= time for stamp in stamps)
        torn += each.commits and 0 < shown < len(stamps)
    return torn


@pytest.mark.parametrize("seed", range(4))
def test_no_transaction_is_torn_and_filtering_by_timestamps_tears(
    tmp_path: Path, seed: int
) -> None:
    history = make_history(tmp_path, seed)
    random = Random(seed)
    stamps = [
        at for each in history.transactions for where in each.records.values() for _, at in where
    ]
    torn_by_peers = decided = 0
    for _ in range(25):
        time = random.choice(stamps) + random.randint(-100, 1000)
        source, cut = opened(history, time)
        seen = committed(source)
        assert not [each for each in history.transactions if is_torn(each, seen)], time
        torn_by_peers += peers(history, time) > 0
        decided += len(cut.decided)
        source.close()
    assert torn_by_peers
    assert decided


@pytest.mark.parametrize(
    ("seed", "time"),
    [
        (1128, 1700000000962),
        (1208, 1700000139155),
        (1256, 1700000141374),
        (34, 1700000068941),  # two of a partition, nearer to each other than the clocks differ
    ],
)
def test_transactions_of_one_epoch_are_told_apart_where_clocks_differ_more_than_was_seen(
    tmp_path: Path, seed: int, time: int
) -> None:
    history = make_history(tmp_path, seed)
    source, _ = opened(history, time)
    seen = committed(source)
    assert not [each for each in history.transactions if is_torn(each, seen)]
    source.close()


@pytest.mark.parametrize("seed", range(4))
def test_at_a_freeze_point_the_ends_are_those_noted(tmp_path: Path, seed: int) -> None:
    history = make_history(tmp_path, seed)
    assert history.freezes
    for time, ends in history.freezes:
        source, cut = opened(history, time)
        found = {name: source.partitions()[name].view().log_end_offset for name in PARTITIONS}
        assert found == {name: ends.get(name, 0) for name in PARTITIONS}
        assert cut.facts()["transactions"] == []
        source.close()
