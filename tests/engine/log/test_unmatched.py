"""The sentence for a selection that matches no partition, with a name that was perhaps meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.log.log_directory import open_source
from engine.log.unmatched import known_names, most_like, unmatched_partition
from tests.engine.log.folders import LogWriter

NAMES = ("orders-0", "orders-1", "payments-0", "__consumer_offsets-0")


@pytest.mark.parametrize(
    ("option", "text", "sentence"),
    [
        (
            "--topic",
            "orders-1",
            "no partition matches --topic orders-1; did you mean --partition orders-1?",
        ),
        ("--topic", "pay.*", "no partition matches --topic pay.*; did you mean --topic '/pay.*/'?"),
        (
            "--partition",
            "orders-7",
            "no partition matches --partition orders-7; the source has orders-0, orders-1",
        ),
        (
            "--partition",
            "orders:7",
            "no partition matches --partition orders:7; the source has orders-0, orders-1",
        ),
        (
            "--partition",
            "payment-0",
            (
                "no partition matches --partition payment-0; the source has orders-0, orders-1, payments-0,"
                " __consumer_offsets-0; did you mean payments-0?"
            ),
        ),
        (
            "--topic",
            "order",
            (
                "no partition matches --topic order; the source has orders-0, orders-1, payments-0,"
                " __consumer_offsets-0; did you mean orders?"
            ),
        ),
        (
            "--topic",
            "x(",
            (
                "no partition matches --topic x(; the source has orders-0, orders-1, payments-0,"
                " __consumer_offsets-0"
            ),
        ),
        ("", "orders-9", "no such partition; the source has orders-0, orders-1"),
    ],
)
def test_a_selection_without_a_partition_names_what_there_is(
    tmp_path: Path, option: str, text: str, sentence: str
) -> None:
    for name in NAMES:
        LogWriter(tmp_path, name)
    logs = open_source(str(tmp_path)).partitions()
    assert unmatched_partition(option, text, logs) == sentence


@pytest.mark.parametrize("count", [0, 1, 4, 5, 9])
def test_four_names_are_shown_and_the_others_are_counted(count: int) -> None:
    names = [f"t-{number}" for number in range(count)]
    shown = known_names(names, "partition")
    if not names:
        assert shown == "the source has no partition"
    else:
        more = f" ({count - 4} more)" if count > 4 else ""
        assert shown == f"the source has {', '.join(names[:4])}{more}"
    assert (re.search("more", shown) is not None) is (count > 4)


def test_the_most_similar_name_begins_with_the_text_or_is_almost_it() -> None:
    names = ["payments", "orders", "payouts"]
    assert most_like("pay", names) == "payments"
    assert most_like("payo", names) == "payouts"
    assert most_like("pa", names) is None
    assert most_like("oders", names) == "orders"
    assert most_like("xyz", names) is None
    assert known_names(names, "topic", "oders", ["others"]).endswith("did you mean others?")
    assert known_names(names, "topic", "oders").endswith("did you mean orders?")
    assert known_names(names, "topic", "").endswith("payouts")
