"""What the driver promises of a log whose offsets are not dense, and what the judge makes of that."""

from __future__ import annotations

from pathlib import Path

from tests.crash.driver import Driver, Promise, batches_in, records_below
from tests.crash.judge import judge_folder, quiet
from tests.crash.scenarios import write_overflowed


def opened(root: Path) -> Driver:
    """A log that was split while it was loaded, with the batches of gaps between them."""
    root.mkdir()
    driver = Driver(root)
    write_overflowed(driver)
    with quiet():
        driver.open()
    assert len(driver.log.segments) > 5
    return driver


def test_segments_are_not_replaced_by_one_that_cannot_hold_their_offsets(tmp_path: Path) -> None:
    driver = opened(tmp_path / "made")
    before = batches_in(driver.log)
    bases = [segment.base_offset for segment in driver.log.segments]
    driver.replace(3)
    assert batches_in(driver.log) == before == driver.current
    assert [segment.base_offset for segment in driver.log.segments] == bases
    driver.let_go()


def test_what_is_cut_in_a_gap_ends_at_the_cut_or_where_its_records_end(tmp_path: Path) -> None:
    driver = opened(tmp_path / "made")
    driver.flush()
    inside = driver.current[3]
    at_start = next(
        segment.base_offset for segment in driver.log.segments if segment.base_offset > 2**32
    )
    for target in (at_start, inside.base_offset):
        driver.truncate(target)
        end = driver.current[-1].last_offset + 1
        assert end < target == driver.log.log_end_offset
        assert driver.promise.stable == records_below(driver.current, target) == end
        driver.log.close_handlers()
        assert judge_folder(driver.root, driver.promise, driver.config) == []
        with quiet():
            driver.open()


def test_a_log_that_ends_above_its_records_where_it_was_not_cut_is_wrong(tmp_path: Path) -> None:
    driver = opened(tmp_path / "made")
    driver.flush()
    target = next(
        segment.base_offset for segment in driver.log.segments if segment.base_offset > 2**32
    )
    driver.truncate(target)
    driver.let_go()
    for ends in ((), (target + 1,)):
        promise = Promise(0, 0, (driver.current,), ends=ends)
        wrong = judge_folder(driver.root, promise, driver.config)
        assert any("the last record's is" in each for each in wrong)


def test_a_batch_that_a_cut_in_a_gap_leaves_must_stay(tmp_path: Path) -> None:
    driver = opened(tmp_path / "made")
    driver.flush()
    driver.truncate(driver.current[6].base_offset)
    promise = driver.promise
    driver.truncate(driver.current[5].base_offset)
    driver.let_go()
    assert any("flushed up to" in each for each in judge_folder(driver.root, promise))
