"""Scenarios on a disk on which a call fails."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

from engine.errors import LogDirFailureError, StateError
from engine.record.encoding.building import records_of
from engine.record.encoding.simple_record import SimpleRecord
from tests.crash.driver import Driver
from tests.crash.failing import FailingDisk, Failures
from tests.crash.judge import judge_folder, quiet
from tests.crash.scenarios import SCENARIOS, write_overflowed

CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)


def begin(name: str, root: Path, failures: Failures) -> tuple[Driver, Callable[[Driver], None]]:
    """A driver on a failing disk, and what it is to do."""
    root.mkdir()
    driver = Driver(root, FailingDisk(failures))
    if name == "split":
        old = Driver(root)
        write_overflowed(old)
        driver.current, driver.promise = old.current, old.promise
    return driver, SCENARIOS[name]


def count_calls(name: str, root: Path, code: int) -> int:
    """How many calls of a scenario can fail that way."""
    failures = Failures(None, code, sticky=False)
    driver, run = begin(name, root, failures)
    with quiet():
        run(driver)
        driver.let_go()
    return failures.calls


def try_fault(name: str, root: Path, failures: Failures) -> list[str]:
    """Run a scenario into a failure, load what it left on a disk that works, and say what is wrong."""
    driver, run = begin(name, root, failures)
    wrong = []
    with quiet():
        try:
            run(driver)
        except OSError as error:
            wrong += _judge_refusal(driver, error)
        except Exception as error:  # noqa: BLE001  that is what is looked for
            wrong.append(f"{failures.struck} raised {error!r}")
        with failures.disarmed():
            driver.let_go()
    return wrong + judge_folder(root, driver.promise._replace(open_ended=True))


def _judge_refusal(driver: Driver, error: OSError) -> list[str]:
    """A log dir that failed takes no more records."""
    if not isinstance(error, LogDirFailureError) or not driver.is_open:
        return []
    try:
        driver.log.append_as_leader(records_of(SimpleRecord(b"k", b"refused")), driver.epoch)
    except (LogDirFailureError, StateError):  # it was closed, and the failure came while loading
        return []
    return ["appended to a log dir that had failed"]
