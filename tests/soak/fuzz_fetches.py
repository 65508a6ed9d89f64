"""A target of the quick way of Fetch: each request is answered by Python alone, too, with the same bytes."""

from __future__ import annotations

import random
from random import Random

from tests.fixtures_data import log_dir
from tests.kafkafs.serve.both_ways import VERSIONS, BothWays, Requests
from tests.soak.mutator import changed
from tests.soak.targets import Target


def fetches() -> Target:
    """Requests to a log dir, most of them of partitions that were fetched from before."""
    ways = BothWays(log_dir("current"), snapshot=True)

    def make(chance: Random) -> bytes:
        asked = Requests(ways.cluster, chance.choice(VERSIONS), chance)
        data = asked.next()
        return changed(data, chance) if chance.random() < 0.7 else data

    def read(data: bytes) -> None:
        random.seed(len(data))
        answers = ways.ask(data)
        assert answers.got == answers.expected

    return Target(make, read)


TARGETS = {"fetches": fetches}
