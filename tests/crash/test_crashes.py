"""A sample of the crash states: all of it is in tests/crash/soak.py."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import SCENARIOS
from tests.crash.soak import soak


@pytest.mark.parametrize("name", [*SCENARIOS, "walk"])
def test_no_crash_loses_what_was_flushed_or_leaves_less_than_it_shows(name: str) -> None:
    failures = soak(11, 40, only=name, say=False)
    assert not failures, "\n".join(failures)
