"""A week of `kafkafs serve` in an hour, or shorter: is every record right, and is the server as large as before?

Forty clients come and go, and some are killed. The source grows and rolls all the time and loses a disk after two
thirds of it; passwords and the certificate change, with a SIGHUP. Prints what was read, wrong records, and memory and
descriptors of the server at the first and the last quarter. The exit status is 1 for a wrong record.

    .venv/bin/python scripts/week_of_serve.py [--minutes N] [--clients N]
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from ctypes import c_longlong
from multiprocessing import Process, RawArray
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests import builders
from tests.builders import Rec
from tests.fixtures_data import DATA
from tests.kafkafs.serve.serving import Served, serving

TOPIC, PARTITIONS, BATCH, BATCHES_OF_SEGMENT = "orders", 8, 20, 200
_MOST_CLIENTS = 100_000
_CERTIFICATES = ("server", "other")


class Growing:
    """A partition of which each record says where it is; it grows and rolls."""

    def __init__(self, disk: Path, number: int) -> None:
        self.folder, self.number, self.end = disk / f"{TOPIC}-{number}", number, 0
        self._path = builders.write_segment(self.folder, [self._batch()], 0)
        self._batches = 1

    def _batch(self) -> bytes:
        at = self.end
        self.end += BATCH
        values = [f"{TOPIC}-{self.number} {offset}".encode() for offset in range(at, at + BATCH)]
        return builders.batch([Rec(value, b"key") for value in values], at)

    def grow(self) -> None:
        """Append a batch, to a new segment from time to time."""
        if self._batches % BATCHES_OF_SEGMENT == 0:
            self._path = self.folder / f"{self.end:020}.log"
        with self._path.open("ab") as file:
            file.write(self._batch())
        self._batches += 1


def read(bootstrap: str, seconds: float, seed: int, password: str, counts: Any) -> None:  # noqa: ANN401
    """Read for some seconds, in a group or by itself, and compare each record."""
    from confluent_kafka import Consumer, TopicPartition

    choice = random.Random(seed)
    is_alone = choice.random() < 0.5
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": f"group-{seed if is_alone else seed % 5}",
            "auto.offset.reset": "earliest", "enable.auto.commit": not is_alone, "log_level": 0,
            "group.protocol": "classic" if is_alone or seed % 5 < 3 else "consumer",
            "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice",
            "sasl.password": password, "ssl.endpoint.identification.algorithm": "none",
            "enable.ssl.certificate.verification": False,
        }
    )  # fmt: skip
    following: dict[int, int] = {}
    if is_alone:
        places = range(PARTITIONS)
        consumer.assign([TopicPartition(TOPIC, place, 0) for place in places])
        following = dict.fromkeys(places, 0)
    else:
        consumer.subscribe([TOPIC])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for message in consumer.consume(500, 0.5):
            if message.error():
                continue
            place, offset = message.partition(), message.offset()
            is_wrong = message.value() != f"{TOPIC}-{place} {offset}".encode()
            is_wrong |= is_alone and following[place] != offset
            following[place] = offset + 1
            counts[2 * seed] += 1
            counts[2 * seed + 1] += is_wrong
    consumer.close()


class Week:
    """The clients, the source and the events."""

    def __init__(self, folder: Path, clients: int, seconds: float) -> None:
        self.folder, self._most, self._seconds = folder, clients, seconds
        self.disks = [folder / "disk1", folder / "disk2"]
        for disk in self.disks:
            disk.mkdir()
            text = "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABA\nnode.id=1\n"
            (disk / "meta.properties").write_text(text)
        self._logs = [Growing(self.disks[number % 2], number) for number in range(PARTITIONS)]
        self.passwords, self.certificate = folder / "passwords", folder / "now"
        self._password = ""
        # Two numbers for each client, without a lock that a killed one would keep.
        self.read = RawArray(c_longlong, 2 * _MOST_CLIENTS)
        self._clients: list[tuple[Process, float]] = []
        self.counts = {"clients": 0, "killed": 0, "changes": 0}
        self.change()

    def change(self) -> None:
        """Write another password and another certificate."""
        self.counts["changes"] += 1
        self._password = f"secret-{self.counts['changes']}"
        self.passwords.write_text(f"alice:{self._password}\n")
        self.passwords.chmod(0o600)
        for kind in ("pem", "key"):
            name = _CERTIFICATES[self.counts["changes"] % 2]
            shutil.copy(DATA / "tls" / f"{name}.{kind}", self.certificate.with_suffix(f".{kind}"))

    def live(self, served: Served) -> list[tuple[int, int]]:
        """Let it all happen; return memory and descriptors of the server, each second."""
        start, sizes, is_lost = time.monotonic(), list[tuple[int, int]](), False
        changes = 0
        while (now := time.monotonic() - start) < self._seconds:
            for log in self._logs:
                if log.folder.exists():
                    log.grow()
            self._come_and_go(served)
            if int(now * 12 / self._seconds) > changes:
                changes += 1
                self.change()
                served.process.send_signal(signal.SIGHUP)
                time.sleep(0.5)
            if now > self._seconds * 2 / 3 and not is_lost:
                is_lost = True
                shutil.rmtree(self.disks[1])
            descriptors = len(os.listdir(f"/proc/{served.process.pid}/fd"))
            sizes.append((served.resident_bytes(), descriptors))
            time.sleep(1)
        for client, _ in self._clients:
            client.kill()
            client.join()
        return sizes

    def _come_and_go(self, served: Served) -> None:
        now = time.monotonic()
        for client, until in self._clients:
            if now > until and client.is_alive():
                client.kill()
                self.counts["killed"] += 1
        self._clients = [(client, until) for client, until in self._clients if client.is_alive()]
        for _ in range(min(self._most - len(self._clients), 4)):
            self.counts["clients"] += 1
            seed, seconds = self.counts["clients"], random.uniform(5, 60)
            given = (served.bootstrap, seconds, seed, self._password, self.read)
            client = Process(target=read, args=given, daemon=True)
            client.start()
            # A third of them is killed in the middle.
            self._clients.append((client, now + (seconds / 2 if seed % 3 == 0 else seconds + 60)))


def main() -> None:
    """Run it, and print the numbers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=40)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        week = Week(folder, chosen.clients, chosen.minutes * 60)
        options = (
            str(week.disks[1]), "--password-file", str(week.passwords),
            "--tls-cert", f"{week.certificate}.pem", "--tls-key", f"{week.certificate}.key",
        )  # fmt: skip
        with serving(week.disks[0], folder, *options) as served:
            sizes = week.live(served)
            lines = served.log.read_text().splitlines()
    quarter = len(sizes) // 4
    for what, unit, at in (("memory in MiB", 1 << 20, 0), ("descriptors", 1, 1)):
        values = [each[at] for each in sizes]
        first, last = median(values[quarter : 2 * quarter]), median(values[-quarter:])
        print(f"{what}: {first / unit:.0f} in the second quarter, {last / unit:.0f} in the last")
    print(", ".join(f"{count:,} {name}" for name, count in week.counts.items()))
    warned = [line for line in lines if " WARNING " in line or " ERROR " in line]
    print(f"{len(lines):,} lines of log, {len(warned):,} of them warnings")
    kinds = Counter(re.sub(r"[0-9]+", "N", line.split(" ", 2)[2]) for line in warned)
    for line, count in kinds.most_common(5):
        print(f"{count:>8,}  {line[:150]}")
    read_all, wrong = sum(week.read[::2]), sum(week.read[1::2])
    print(f"{read_all:,} records read, {wrong:,} of them wrong")
    sys.exit(bool(wrong or not read_all))


if __name__ == "__main__":
    main()
