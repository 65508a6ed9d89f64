"""Blocks of a log at a wrong place cost the batches that they overwrite, and no others."""

from __future__ import annotations

import pytest

from tests.damage.moved_blocks import failures_of


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_readers_and_a_rebuild_keep_every_batch_in_its_place(first: int) -> None:
    """`python -m tests.damage.moved_blocks` tries more of them."""
    wrong = [each for number in range(first, first + 20) for each in failures_of(1, number)]
    assert not wrong, "\n".join(wrong)
