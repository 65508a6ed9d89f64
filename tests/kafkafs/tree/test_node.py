"""What nodes have in common: inode numbers and times."""

import pytest
from hypothesis import given, strategies as st

from kafkafs.tree.node import MAX_MTIME_NS, ROOT_INODE, Directory, inode_number, mtime_of


def test_the_root_has_inode_1_and_nothing_else_has() -> None:
    assert inode_number("") == ROOT_INODE == 1


@given(st.text(min_size=1))
def test_inode_numbers_fit_in_63_bits_and_are_not_0_or_1(path: str) -> None:
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return
    assert 2 <= inode_number(path) < 2**63


def test_inode_numbers_never_change() -> None:
    assert inode_number("orders-0/offset/35") == 5960868141416800775
    assert inode_number("orders-0") != inode_number("orders-1")


def test_a_name_that_is_not_utf_8_has_an_inode_number() -> None:
    assert inode_number("t-0/segments/\udcff\udc80") > 1


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, 0), (-1, 0), (-(2**63), 0), (1_700_000_000_123, 1_700_000_000_123_000_000),
        (2**63 - 1, MAX_MTIME_NS), (9_223_372_036_854, 9_223_372_036_854_000_000),
        (9_223_372_036_855, MAX_MTIME_NS),
    ],
)  # fmt: skip
def test_timestamps_become_file_times_within_what_stat_can_hold(
    timestamp: int, expected: int
) -> None:
    assert mtime_of(timestamp) == expected


def test_children_of_the_root_have_no_slash_in_front() -> None:
    assert Directory("").child("a") == "a"
    assert Directory("a").child("b") == "a/b"
