"""How long a good client of `kafkafs serve` waits beside clients that ask for too much: slowest answers by attack.

A good client asks 20 times a second for a topic's metadata and its first records; beside it one attack after the
other runs in a process of its own, each for some seconds. The first row is without one.

    .venv/bin/python scripts/attack_serve.py [--seconds N] [--only NAME] [SOURCE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import Event, Process
from multiprocessing.synchronize import Event as Stopped
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fixtures_data import log_dir
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving

FETCH, METADATA, JOIN_GROUP, API_VERSIONS = 1, 3, 11, 18
TOPIC = "codec-zstd"
_PAUSE = 0.05


def fetch_of(topic: str, count: int) -> dict[str, object]:
    """A Fetch of the first partitions of a topic."""
    partitions = [
        {"partition": number, "fetchOffset": 0, "partitionMaxBytes": 65536}
        for number in range(count)
    ]
    return {
        "replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 65536, "sessionEpoch": -1,
        "topics": [{"topic": topic, "partitions": partitions}],
    }  # fmt: skip


def connections(served: Served) -> None:
    """Open a connection and close it, without a request."""
    Connection(served).__exit__()


def many_connections(served: Served) -> None:
    """Open 300 connections, then close them."""
    held = [Connection(served) for _ in range(300)]
    for each in held:
        each.__exit__()


def versions_and_away(served: Served) -> None:
    """Ask for versions on a connection of its own."""
    with Connection(served) as client:
        client.ask(API_VERSIONS, 3, clientSoftwareName="x", clientSoftwareVersion="1")


def partitions(served: Served) -> None:
    """Ask for 19,000 partitions that are not there."""
    with Connection(served) as client:
        client.ask(FETCH, 12, **fetch_of("none", 19_000))


def groups(served: Served) -> None:
    """Join groups with new members."""
    with Connection(served) as client:
        for number in range(2000):
            client.ask(
                JOIN_GROUP, 4, groupId=f"g{number}", sessionTimeoutMs=30_000, memberId="",
                rebalanceTimeoutMs=60_000, protocolType="consumer", protocols=[{"name": "range", "metadata": b""}],
            )  # fmt: skip


def old_clients(served: Served) -> None:
    """Send a version that nobody has."""
    with Connection(served) as client:
        client.send(b"\0\0\0\x0c\0\x03\0\x63" + bytes(8))
        client.receive(1)


def half_requests(served: Served) -> None:
    """Hold 300 connections with half a request each."""
    held = [Connection(served) for _ in range(300)]
    for each in held:
        each.send(b"\0\x10\0\0" + bytes(1000))
    time.sleep(0.5)
    for each in held:
        each.__exit__()


def deaf(served: Served) -> None:
    """Ask for records on 50 connections, and read no answer."""
    held = [Connection(served) for _ in range(50)]
    asked = request(FETCH, 12, 1, **fetch_of(TOPIC, 1)) * 50
    for each in held:
        each.send(asked)
    time.sleep(0.5)
    for each in held:
        each.__exit__()


ATTACKS: tuple[Callable[[Served], None], ...] = (
    connections, many_connections, versions_and_away, partitions, groups, old_clients, half_requests, deaf,
)  # fmt: skip


def _attack(attack: Callable[[Served], None], port: int, stopped: Stopped) -> None:
    served = Served(None, "127.0.0.1", port, Path())  # type: ignore[arg-type]
    while not stopped.is_set():
        with suppress(OSError, AssertionError, Exception):
            attack(served)


def answers(served: Served, seconds: float) -> list[float]:
    """Return how long the answers to a good client took, in seconds, ascending."""
    taken: list[float] = []
    end = time.monotonic() + seconds
    with Connection(served) as client:
        while time.monotonic() < end:
            start = time.perf_counter()
            client.ask(METADATA, 9, topics=[{"name": TOPIC}])
            found = client.ask(FETCH, 11, **fetch_of(TOPIC, 1))
            taken.append(time.perf_counter() - start)
            assert found["responses"][0]["partitions"][0]["records"]
            time.sleep(_PAUSE)
        start = time.perf_counter()
        with Connection(served) as other:  # a new client gets through, too
            other.ask(METADATA, 9, topics=[{"name": TOPIC}])
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def main() -> None:
    """Measure each attack, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--only", help="part of an attack's name")
    parser.add_argument("source", nargs="?", type=Path, default=log_dir("current"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(chosen.source, Path(folder)) as served:
        print(f"{'attack':<20}{'answers':>8}{'median ms':>11}{'99 % ms':>9}{'slowest ms':>12}")
        for attack in (None, *ATTACKS, None):
            name = "none" if attack is None else attack.__name__
            if chosen.only and chosen.only not in name and attack is not None:
                continue
            stopped = Event()
            other = None
            if attack is not None:
                other = Process(target=_attack, args=(attack, served.port, stopped), daemon=True)
                other.start()
            taken = answers(served, chosen.seconds)
            if other is not None:
                stopped.set()
                other.join(30)
                other.kill()
            shown = taken[len(taken) // 2], taken[len(taken) * 99 // 100], taken[-1]
            print(f"{name:<20}{len(taken):>8}" + "".join(f"{1000 * each:>11.1f}" for each in shown))
        print(f"{len(served.log.read_text().splitlines())} lines of log")


if __name__ == "__main__":
    main()
