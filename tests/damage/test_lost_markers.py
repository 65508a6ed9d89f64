"""What becomes of transactions whose end marker is damaged (faults 9 and 67 together).

The next marker of the same producer belongs to another transaction, so it must not decide this one. Where the
index of aborted transactions knows the lost marker, it is believed; nothing else is held up by the loss.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import (
    Aborted,
    Producer,
    batch,
    end_marker,
    patched,
    transaction_index,
    write_segment,
)
from tests.damage.cases import good, records
from tests.damage.reader import Look
from tests.damage.survey import Survey

WRITER = Producer(id=7, epoch=0, sequence=0)


def data(name: str, base_offset: int) -> bytes:
    """Two records of the writer's transaction."""
    two = records(base_offset, f"{name}0", f"{name}1")
    return batch(two, base_offset, producer=WRITER, transactional=True)


def log_of(folder: Path, ends: list[bool], damaged: int, *, is_indexed: bool = True) -> Path:
    """Transactions at 0, 3, 6 … of two records and an end each, committed or not; one end is damaged.

    Three plain records follow.
    """
    batches, aborted = [], []
    for number, commit in enumerate(ends):
        first = 3 * number
        marker = end_marker(first + 2, WRITER, commit=commit)
        if number == damaged:
            marker = patched(marker, 70, b"\xff\xff")
        batches += [data(f"t{number}-", first), marker]
        if not commit:
            aborted.append(Aborted(WRITER.id, first, first + 2, first + 3))
    batches.append(good("z", 3 * len(ends)))
    write_segment(folder / "t-0", batches, aborted=aborted if is_indexed else ())
    return folder


def states(found: Survey) -> list[str]:
    """Of each transaction, from its first record."""
    return [fact["transaction"]["state"] for fact in found.records() if "transaction" in fact][::2]


@pytest.mark.parametrize("later", [True, False])
def test_an_abort_that_is_lost_stays_an_abort_by_the_index(
    tmp_path: Path, look: Look, later: bool
) -> None:
    found = look(log_of(tmp_path, [True, False, later], damaged=1))
    assert states(found) == ["committed", "aborted", "committed" if later else "aborted"]
    assert [error["kind"] for error in found.errors()] == ["crc_mismatch"]
    assert not [value for value in found.values(view="committed") if value.startswith("t1")]


def test_a_commit_that_is_lost_is_not_undone_by_a_later_abort(tmp_path: Path, look: Look) -> None:
    found = look(log_of(tmp_path, [True, True, False], damaged=1))
    assert states(found) == ["committed", "committed", "aborted"]


def test_without_an_index_the_next_marker_is_all_there_is(tmp_path: Path, look: Look) -> None:
    found = look(log_of(tmp_path, [True, False, True], damaged=1, is_indexed=False))
    assert states(found) == ["committed", "committed", "committed"]
    assert len(found.errors()) == 1


@pytest.mark.parametrize(("commit", "state"), [(True, "open"), (False, "aborted")])
def test_a_lost_last_marker_holds_up_nothing_that_comes_after(
    tmp_path: Path, look: Look, commit: bool, state: str
) -> None:
    found = look(log_of(tmp_path, [True, commit], damaged=1))
    assert states(found) == ["committed", state]
    assert found.values(view="committed") == ["t0-0", "t0-1", "z0", "z1", "z2"]
    assert found.json("t-0/state/offsets.json")["lastStableOffset"] == 9
    assert len(found.errors(view="committed")) == 1


@pytest.mark.parametrize(
    "entry",
    [
        Aborted(7, 0, 2, 3),  # accuses a transaction whose commit is there
        Aborted(7, 3, 4, 5),  # an end where no damage is
        Aborted(9, 3, 5, 6),  # another producer
    ],
)
def test_an_index_that_the_log_contradicts_is_not_believed(
    tmp_path: Path, look: Look, entry: Aborted
) -> None:
    log_of(tmp_path, [True, True, True], damaged=1, is_indexed=False)
    (tmp_path / "t-0" / f"{0:020}.txnindex").write_bytes(transaction_index([entry]))
    assert states(look(tmp_path)) == ["committed"] * 3
