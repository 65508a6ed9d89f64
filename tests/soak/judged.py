"""Parts that Kafka judges: hurt logs in its loader and ours, random scripts, and a live directory under a writing broker."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from tests.checkout import ROOT
from tests.kafka import jars
from tests.soak.parts import Job, Part

LIVE_TEST = "tests/kafka/test_live.py"
LIVE_SECONDS = 45, 300
"""Least and most of one live directory, in which all that is looked for happens."""
LIVE_PAUSE, LIVE_PACE = "0.25", "4"
"""Slower than the test's own: a soak looks for what hours bring, beside other parts on the same processors."""
VISIBLE_WITHIN = "10"
"""Seconds until a record is shown, beside other parts and whatever else the machine does."""
SLOW = "of them with a record that was shown after more than a second"


def obstacle() -> str:
    """Why Kafka cannot be asked here; empty when it can."""
    if find_spec("confluent_kafka") is None:
        return "confluent-kafka is not installed: run scripts/setup kafka"
    return jars.missing_tool() or ""


@contextmanager
def quiet() -> Iterator[None]:
    """Nothing on standard error: Kafka's classes and ours tell there of each damage that they meet."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def plan_loads(job: Job) -> None:
    """Hurt folders, and what Kafka's loader makes of them beside our plan."""
    from tests.kafka.load_judge import LoadJudge
    from tests.kafka.test_planned_loads import PER_DIR, wrong_plans

    with quiet(), LoadJudge() as judge:
        for numbers in job.batches(PER_DIR):
            with tempfile.TemporaryDirectory(prefix="soak-loads-") as work:
                wrong, segments = wrong_plans(judge, Path(work), job.seed * 10**9 + numbers.start)
            job.note("segments", segments)
            for name, found in wrong.items():
                job.find(numbers.start, f"{name}: {found}", count=PER_DIR)


def alike(job: Job, function: str) -> None:
    """Where Kafka's classes and ours end otherwise; the function is one of tests.kafka.test_judge."""
    from tests.kafka import test_judge
    from tests.kafka.judge import Judge

    by_both = getattr(test_judge, function)
    with quiet(), Judge() as judge:
        for number in job.numbers():
            with tempfile.TemporaryDirectory(prefix="soak-judged-") as work:
                ours, kafkas = by_both(judge, Path(work), job.seed * 10**9 + number)
                job.note("segments", len(list(Path(work, "ours").glob("*/*.log"))))
            if ours != kafkas:
                job.find(number, f"ours {ours!r:.3000}\nKafka's {kafkas!r:.3000}")


def load_alike(job: Job) -> None:
    """Logs killed and spoilt, loaded by Kafka's classes and ours."""
    alike(job, "loaded_by_both")


def write_alike(job: Job) -> None:
    """Random scripts of appends, truncations and compactions, run by Kafka's classes and ours."""
    alike(job, "written_by_both")


def read_live(job: Job) -> None:
    """Readers of a directory in which a broker writes, rolls, compacts and deletes; an input is a second of it."""
    least, most = LIVE_SECONDS
    for numbers in job.batches(int(min(max((job.seconds or least) / 4, least), most))):
        environment = {
            **os.environ,
            "KAFKAFS_LIVE_SECONDS": str(max(len(numbers), least)),
            "KAFKAFS_LIVE_PAUSE": LIVE_PAUSE,
            "KAFKAFS_LIVE_PACE": LIVE_PACE,
            "KAFKAFS_LIVE_VISIBLE_WITHIN": VISIBLE_WITHIN,
            "KAFKAFS_KAFKA_SEED": str((job.seed * 10**6 + numbers.start) % 2**31),
        }
        words = ["-q", "-s", "-m", "kafka", "-p", "no:randomly", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, LIVE_TEST],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if reads := re.search(r"reads (\d+)", done.stdout):
            job.note("reads", int(reads[1]))
        if slowest := re.search(r"at most (\d+) ms", done.stdout):
            job.note("live directories")
            job.note(SLOW, int(int(slowest[1]) > 1000))
        if done.returncode:
            job.find(numbers.start, done.stdout[-8000:] + done.stderr[-2000:], count=len(numbers))


PARTS = (
    Part(
        "loader/plan", "hurt folders: our plan, and Kafka's loader", "folders", plan_loads, obstacle
    ),
    Part("loader/load", "spoilt logs, loaded by Kafka and by us", "logs", load_alike, obstacle),
    Part(
        "loader/write", "scripts of calls, run by Kafka and by us", "scripts", write_alike, obstacle
    ),
    Part("live", "a directory under a writing broker", "seconds", read_live, obstacle),
)
