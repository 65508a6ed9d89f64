"""Blocks of a log at a wrong place cost the batches that they overwrite, and no others."""

from __future__ import annotations

import pytest

from tests.damage.moved_blocks import failures_of


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_readers_and_a_rebuild_keep_every_batch_in_its_place(first: int) -> None:
    """`python -m tests.damage.moved_blocks` tries more of them."""
    wrong = [each for number in range(first, first + 20) for each in failures_of(1, number)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (
            21,
            19,
        ),  # frames of damaged batches end with the file, and a whole message is inside of one
        (
            21,
            47,
        ),  # a segment that lost bytes ends with a batch of another log: its index is of a larger file
        (21, 410),  # a block before the last batches states larger offsets than they do
        (5, 23),
        (32, 10),  # a segment that is nothing but a block of the next one
        (31, 172),  # whole batches of the next segment up to the end of a file that lost bytes
        (21, 1225),  # the last batches of a file above 64 KiB contradict the chain
        (41, 15),  # a block ends in the base offset of a wrapper, and frames lead a look-up there
        (301, 240),  # a wrapper's offset is zeroed, and a split of Spark begins there
        (301, 762),  # behind one wrapper of its own, a segment has a block of another log
        (42, 358),  # a block begins in a base offset: the message is whole, and states another one
        (403, 160),  # by chance the batch behind differs from what would follow in one bit
        (403, 300),
    ],
)
def test_cases_that_were_wrong_once(seed: int, number: int) -> None:
    wrong = failures_of(seed, number, faces=True)
    assert not wrong, "\n".join(wrong)


def test_blocks_that_end_in_a_base_offset() -> None:
    """The rest of the batch is whole, and no checksum covers its base offset; `--torn` tries more of them."""
    wrong = [each for number in range(20) for each in failures_of(2, number, torn=True)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        (78, 19),  # a wrapper of magic 0 states an offset of no segment
        (78, 98),  # a fetch inside of a wrapper behind a batch with a negative offset
    ],
)
def test_blocks_that_end_in_a_base_offset_were_wrong_once(seed: int, number: int) -> None:
    wrong = failures_of(seed, number, faces=True, torn=True)
    assert not wrong, "\n".join(wrong)
