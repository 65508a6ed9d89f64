"""A store that fails now and then costs nothing; one that fails for good costs what it does not give, and is named."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import kafkafs
from engine.errors import SourceError, UnreadableError
from tests.fixtures_data import log_dir, truth_records
from tests.kafkafs.cli.test_sources import run
from tests.object_stores import (
    BUCKET,
    CUT,
    FORBIDDEN,
    GONE,
    RESET,
    SLOW_DOWN,
    Fault,
    ObjectStore,
    Request,
)

SAMPLE = log_dir("sample")
URL = f"s3://{BUCKET}/logdir"
RECORDS = len(truth_records("sample", "orders-0"))
SECOND = f"logdir/orders-0/{395:020}.log"
IN_SECOND = 790 - 395


def often(kinds: tuple[float, ...]) -> Fault:
    """Each kind happens to every fifth request."""
    chosen = random.Random(7)

    def fault(_: Request, number: int) -> float:
        return chosen.choice(kinds) if number % 5 == 3 else 0

    return fault


@pytest.mark.parametrize("kinds", [(RESET, CUT, SLOW_DOWN, 500), (-0.3,)], ids=["errors", "delays"])
def test_what_passes_costs_no_record(kinds: tuple[float, ...], store: ObjectStore) -> None:
    expected = run(["grep", "", str(SAMPLE)])[0].stdout
    store.fault = often(kinds)
    result, error = run(["grep", "", URL])
    assert (result.exit_code, error.strip()) == (0, "")
    assert result.stdout == expected


def broken(store: ObjectStore, status: float) -> None:
    store.fault = lambda request, _: status if request.key == SECOND else 0


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (FORBIDDEN, "the store refuses access to the object"),
        (GONE, "the object is no longer in the store"),
    ],
)
def test_an_object_that_is_not_given_is_named_and_the_rest_is_served(
    status: float, words: str, store: ObjectStore
) -> None:
    broken(store, status)
    result, error = run(["cat", f"{URL}/orders-0"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len([line for line in lines if "offset" in line]) == RECORDS - IN_SECOND
    (lost,) = [line["error"] for line in lines if "error" in line]
    assert words in lost["reason"]
    assert f"logdir/{lost['file']}" == SECOND
    assert result.exit_code == 3
    assert "tmp" not in error
    check, _ = run(["check", URL, "-t", "orders"])
    assert check.exit_code == 3 or "unreadable" in check.stdout
    assert words in check.stdout


def test_a_changed_object_is_an_error_of_its_segment(store: ObjectStore) -> None:
    before = (SAMPLE / "orders-0" / Path(SECOND).name).read_bytes()
    with kafkafs.open(URL) as opened:
        store.put(SECOND, before[: len(before) // 2] + b"\0" * (len(before) - len(before) // 2))
        try:
            found = [each.offset for each in opened["orders", 0].records(on_corrupt="skip")]
        finally:
            store.put(SECOND, before)
        assert len(found) == RECORDS - IN_SECOND
        (problem,) = [each for each in opened.problems if "changed in the store" in each.reason]
        assert f"logdir/{problem.file}" == SECOND


def test_a_busy_store_is_named_in_bounded_time(store: ObjectStore) -> None:
    store.fault = lambda *_: SLOW_DOWN
    with pytest.raises(SourceError, match="asks for fewer requests") as caught:
        kafkafs.open(URL)
    assert "later" in caught.value.hint


def test_a_store_that_goes_away_is_an_error_of_each_read(store: ObjectStore) -> None:
    with kafkafs.open(URL) as opened:
        store.fault = lambda *_: RESET
        file = opened._logs.source.roots[0].open(f"orders-0/{0:020}.log")
        for _ in range(3):
            with pytest.raises(UnreadableError, match="the store does not answer"):
                file.read_at(0, 10)
        store.fault = lambda *_: 0
