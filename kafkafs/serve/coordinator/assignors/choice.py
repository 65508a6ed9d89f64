"""The assignors by name, and the choice of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafkafs.serve.coordinator.assignors.ranges import assign_ranges
from kafkafs.serve.coordinator.assignors.subscriber import Assignor
from kafkafs.serve.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""In the order of a broker's own hash table, which decides between those that as many members ask for."""


def elected(wishes: Iterable[str | None], latest: str | None = None) -> str:
    """Return the assignor that most members ask for; the first of all if nobody asks for one.

    Args:
        wishes: the assignor that each member asks for; None for one that leaves it to the server.
        latest: the wish of the member that is asking. As in brokers, it goes before equals if nobody else has it.
    """
    votes = Counter(wishes)
    return max(ASSIGNORS, key=lambda name: (votes[name], name == latest and votes[name] == 1))
