"""What goes minutes after the start of an old cluster is said before, and whether it is held."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.recover import recovering
from engine.recover.expiring import EXPIRY_MS
from tests.engine.recover.dead_clusters import report_of, unpacked

KILLED = 1_795_918_700_000
"""Some seconds after the packed cluster was killed."""


class _Clock:
    def __init__(self, now: int) -> None:
        self._now = now

    def now_ms(self) -> int:
        return self._now


@pytest.fixture(scope="module")
def dead(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return unpacked(tmp_path_factory.mktemp("dead"))


@pytest.mark.parametrize("hold", [False, True])
def test_an_old_cluster_empties_itself(
    dead: list[Path], hold: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "SYSTEM_CLOCK", _Clock(KILLED + EXPIRY_MS))
    report = report_of(dead, hold=hold)
    going = {each["partition"]: each for each in report["expires"]["partitions"]}
    assert set(going) == {"orders-0", "orders-1"}, "the end of payments-0 is new: a marker"
    for name, each in going.items():
        [partition] = [row for row in report["partitions"] if row["partition"] == name]
        assert (each["first"], each["next"]) == (0, partition["logEndOffset"])
        assert each["reason"] == "retention.ms"
    assert report["expires"]["bytes"] == sum(each["bytes"] for each in going.values()) > 0
    assert report["hold"] is hold
    assert report["expires"]["groups"] == [], "the group loses its members now"


def test_a_cluster_of_today_keeps_all(dead: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovering, "SYSTEM_CLOCK", _Clock(KILLED))
    expires = report_of(dead)["expires"]
    assert (expires["partitions"], expires["groups"], expires["transactionalIds"]) == ([], [], [])
