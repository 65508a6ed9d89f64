"""Each call in turn fails: what was there stays loadable, and nothing half done counts."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from random import Random

import pytest

from tests.crash.failing import Failures
from tests.crash.faults import count_calls, try_fault
from tests.crash.scenarios import SCENARIOS
from tests.crash.soak import work_folder

CODES = (errno.EIO, errno.ENOSPC, errno.EROFS)
SAMPLE = 5


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_failing_disk_loses_nothing_flushed(name: str) -> None:
    work = work_folder()
    random = Random(name)
    try:
        for code in CODES:
            calls = count_calls(name, work / f"count-{code}", code)
            assert calls > 20
            for number in sorted(random.sample(range(calls), SAMPLE)):
                failures = Failures(number, code, sticky=random.random() < 0.5)
                root = work / f"{code}-{number}"
                assert try_fault(name, root, failures) == [], f"{failures.struck}, {number}, {code}"
                assert failures.struck is not None
    finally:
        shutil.rmtree(work)


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
