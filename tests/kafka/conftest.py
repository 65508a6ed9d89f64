"""Directories that a real broker has just written, and the reason when there can be no broker."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.kafka import jars
from tests.spark_session import spark

__all__ = ["spark"]

HERE = Path(__file__).parent
SEED = int(os.environ.get("KAFKAFS_KAFKA_SEED") or random.SystemRandom().randrange(2**31))


def why_not() -> str | None:
    """Why these tests cannot run here."""
    missing = jars.missing_tool()
    if missing is None and find_spec("confluent_kafka") is None:
        return "confluent-kafka is not installed: pip install --group kafka"
    return missing


# Test modules import confluent_kafka at their top.
collect_ignore_glob = ["test_*.py", "*/test_*.py"] if find_spec("confluent_kafka") is None else []


def pytest_report_header() -> str:
    """The seed, so that a failure can be repeated, or why nothing runs."""
    reason = why_not()
    return f"kafka: {reason}" if reason else f"kafka: KAFKAFS_KAFKA_SEED={SEED}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the real Kafka."""
    reason = why_not()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True, slots=True)
class Written:
    """A log dir in a state that a broker left it in, and what clients saw in it."""

    log_dir: Path
    truth: dict[str, Any]
    version: str


@pytest.fixture(scope="session")
def current(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A log dir of a 4.3.1 broker with every shape, after a clean stop."""
    return _written(tmp_path_factory.mktemp("current"), jars.CURRENT)


@pytest.fixture(scope="session")
def live(current: Written) -> Written:
    """The same directory as it lay there while the broker ran."""
    return Written(current.log_dir.with_name("live"), current.truth, current.version)


@pytest.fixture(scope="session")
def legacy(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A log dir of a 2.8.2 broker with message formats 0, 1 and 2."""
    return _written(tmp_path_factory.mktemp("legacy"), jars.LEGACY)


def _written(home: Path, version: str) -> Written:
    from tests.kafka.broker import Broker
    from tests.kafka.shapes import fill_current, fill_legacy
    from tests.kafka.truth import truth_of

    with Broker(home, version) as broker:
        fill: Callable[[str, int], object] = (
            fill_current if version == jars.CURRENT else fill_legacy
        )
        session = fill(broker.bootstrap, SEED)
        truth = truth_of(broker.bootstrap)
        shutil.copytree(broker.log_dir, home / "live")
        broker.stop()
        with warnings.catch_warnings():  # its open transaction ends with nobody to tell
            warnings.simplefilter("ignore")
            del session
    return Written(broker.log_dir, truth, version)


@pytest.fixture(scope="session")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A log dir as SIGKILL left it, and what the same broker served after it had recovered it."""
    from tests.kafka.broker import Broker
    from tests.kafka.shapes import write_without_waiting
    from tests.kafka.truth import truth_of

    home = tmp_path_factory.mktemp("crashed")
    broker = Broker(home)
    broker.start()
    try:
        write_without_waiting(broker.bootstrap, SEED, seconds=3)
    finally:
        broker.kill()
    shutil.copytree(broker.log_dir, home / "copy")
    with broker:
        truth = truth_of(broker.bootstrap)
    return Written(home / "copy", truth, broker.version)
