"""The ring of log lines, and messages that come too often."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kafkafs.fuse import daemon_log
from kafkafs.fuse.daemon_log import LimitedLog, RingHandler, logger, set_up


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers:
        if handler not in before:
            with suppress(OSError):
                handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    logging.raiseExceptions = True


@pytest.fixture
def ring() -> RingHandler:
    return set_up(path=None, to_terminal=False, debug=False)


def test_lines_are_kept_with_time_and_level(ring: RingHandler) -> None:
    logger.info("mounted")
    assert ring.text().endswith(" INFO mounted\n")
    assert ring.text()[10] == "T"


def test_only_the_last_lines_are_kept(ring: RingHandler) -> None:
    for number in range(2000):
        logger.info("%s %s", number, "x" * 500)
    text = ring.text()
    assert len(text) <= daemon_log.RING_BYTES
    assert " 1999 " in text
    assert " 1000 " not in text


def test_hostile_names_bring_no_control_characters_into_the_log(ring: RingHandler) -> None:
    logger.info("file %s", "a\x1b[31m\r\x9b\udcff")
    assert "a\\x1b[31m\\x0d\\xc2\\x9b\\xff" in ring.text()


def test_a_message_is_written_once_and_then_counted(ring: RingHandler) -> None:
    now = [100.0]
    limited = LimitedLog(clock=lambda: now[0])
    for _ in range(50):
        limited.write(logging.WARNING, "a checksum is wrong")
    assert ring.text().count("checksum") == 1
    now[0] += daemon_log.QUIET_SECONDS + 1
    limited.write(logging.WARNING, "a checksum is wrong")
    assert "(and 49 more like this)" in ring.text()


def test_many_different_messages_take_bounded_memory(ring: RingHandler) -> None:
    limited = LimitedLog()
    for number in range(5000):
        limited.write(logging.WARNING, f"problem {number}")
    assert len(limited._seen) <= daemon_log.KEPT_MESSAGES


def test_a_log_file_gets_the_lines_too(tmp_path: Path) -> None:
    set_up(path=str(tmp_path / "log"), to_terminal=False, debug=True)
    logger.debug("detail")
    assert "DEBUG detail" in (tmp_path / "log").read_text()
    with pytest.raises(OSError, match="No such file"):
        set_up(path=str(tmp_path / "no" / "log"), to_terminal=False, debug=False)


def test_a_full_disk_under_the_log_file_stops_nothing() -> None:
    set_up(path="/dev/full", to_terminal=False, debug=False)
    logger.error("this line has nowhere to go")
