"""A query follows a log dir that a real broker writes, is killed and restarted, and has each record once.

KAFKAFS_STREAM_RECORDS says how many are written (50,000 otherwise).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kafkafs.spark.session import why_not
from tests.kafka import clients
from tests.kafka.broker import Broker
from tests.kafka.conftest import SEED

RECORDS = int(os.environ.get("KAFKAFS_STREAM_RECORDS") or 50_000)
KILLS = 3
PARTITIONS = 3
CHUNKS = 250
PAUSE = 0.1
PATIENCE = 300.0
ROOT = Path(__file__).parents[2]
SEGMENT = {"internal.segment.bytes": 1 << 18, "segment.index.bytes": 65536}


class Numbers(threading.Thread):
    """Writes the numbers below RECORDS to one topic, and transactions, some of them aborted, to another.

    Until `hurry` is set it takes its time, and keeps the last third of the numbers.
    """

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__()
        self.hurry = threading.Event()
        self.kept: list[int] = []
        self.errors: list[object] = []
        self._promised = 0
        self._random = random.Random(seed)
        self._plain = clients.producer(bootstrap, compression_type="zstd", enable_idempotence=True)
        self._bound = clients.producer(bootstrap, transactional_id="promises")
        self._bound.init_transactions(clients.ANSWER_SECONDS)
        for topic, partitions in (("numbers", PARTITIONS), ("promises", 1)):
            clients.create_topic(bootstrap, topic, partitions, SEGMENT)

    def run(self) -> None:
        """All of it."""
        try:
            for chunk in range(CHUNKS):
                while chunk >= CHUNKS * 2 // 3 and not self.hurry.is_set():
                    self._promise()
                    self.hurry.wait(PAUSE)
                first, stop = RECORDS * chunk // CHUNKS, RECORDS * (chunk + 1) // CHUNKS
                for number in range(first, stop):
                    self._send(self._plain, "numbers", number, self._random.randrange(PARTITIONS))
                self._plain.flush()
                self._promise()
                self.hurry.wait(PAUSE)
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)

    def _promise(self) -> None:
        numbers = range(self._promised, self._promised + self._random.randrange(1, 100))
        self._promised = numbers.stop
        self._bound.begin_transaction()
        for number in numbers:
            self._send(self._bound, "promises", number, 0)
        if self._random.random() < 0.3:
            self._bound.flush()
            self._bound.abort_transaction(clients.ANSWER_SECONDS)
        else:
            self._bound.commit_transaction(clients.ANSWER_SECONDS)
            self.kept += numbers

    def _send(self, producer: Any, topic: str, number: int, partition: int) -> None:
        value = b"%d" % number
        while True:
            try:
                producer.produce(topic, value, partition=partition, on_delivery=self._note)
                return
            except BufferError:
                producer.poll(0.1)

    def _note(self, error: object, _: object) -> None:
        if error is not None:
            self.errors.append(error)


class Driver:
    """A process of the driver's; it, its JVM and its workers are a group that dies at once."""

    def __init__(self, log_dir: Path, home: Path, number: int) -> None:
        self._errors = home / f"driver-{number}.log"
        with open(self._errors, "wb") as errors:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.kafka.stream_driver"),
                    *(str(log_dir), str(home), str(RECORDS // 15)),
                ],
                cwd=ROOT,
                env=os.environ | {"PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )

    def say(self, word: str) -> None:
        """Begin."""
        assert self._process.stdin is not None
        assert self.line() == "ready"
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        watch = threading.Timer(PATIENCE, self.kill)
        watch.start()
        line = self._process.stdout.readline().strip()
        watch.cancel()
        if not line:
            raise AssertionError(self._errors.read_text(errors="replace")[-5000:])
        return line

    def kill(self) -> None:
        """SIGKILL to all of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Kill it if it runs, and close its pipes."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.mark.timeout(1200)
def test_a_query_that_is_killed_and_restarted_has_each_record_once(tmp_path: Path) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    dice = random.Random(SEED)
    drivers: list[Driver] = []
    with Broker(tmp_path / "broker") as broker:
        numbers = Numbers(broker.bootstrap, SEED)

        def driver() -> Driver:
            drivers.append(Driver(broker.log_dir, tmp_path, len(drivers)))
            return drivers[-1]

        try:
            following = driver()
            for kill in range(KILLS):
                following.say("follow")
                if not kill:
                    numbers.start()
                waiting = driver()  # the next one starts while this one works
                for _ in range(dice.randrange(1, 3)):
                    following.line()
                time.sleep(dice.random())
                following.kill()
                following = waiting
            assert numbers.is_alive()
            numbers.hurry.set()
            numbers.join()
            following.say("finish")
            held = json.loads(following.line())
            ends = {
                place: clients.Reader(broker.bootstrap, committed=True).bounds("numbers", place)
                for place in range(PARTITIONS)
            }
        finally:
            numbers.hurry.set()
            if numbers.is_alive():
                numbers.join()
            for each in drivers:
                each.close()
    assert numbers.errors == []
    assert held["numbers"] == [RECORDS, RECORDS, 0, RECORDS - 1]
    assert held["promises"] == numbers.kept
    assert held["partitions"][:PARTITIONS] == [
        ["numbers", place, stop, stop, 0, stop] for place, (_, stop) in ends.items()
    ]
