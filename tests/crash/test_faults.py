"""Each call in turn fails: what was there stays loadable, and nothing half done counts."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.crash.failing import Failures
from tests.crash.scenarios import SCENARIOS
from tests.crash.soak import soak_faults


@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_133_a_failing_disk_loses_nothing_flushed(name: str) -> None:
    failures = soak_faults(3, 12, only=name, say=False)
    assert not failures, "\n".join(failures)


def test_a_failure_strikes_at_its_turn(tmp_path: Path) -> None:
    once = Failures(1, errno.EIO, sticky=False)
    once.check("first", changes=True)
    with pytest.raises(OSError, match="second"):
        once.check("second", changes=False)
    once.check("third", changes=True)
    ever = Failures(0, errno.ENOSPC, sticky=True)
    ever.check("a read cannot fail for lack of space", changes=False)
    for _ in range(2):
        with pytest.raises(OSError, match="write"):
            ever.check("write", changes=True)
