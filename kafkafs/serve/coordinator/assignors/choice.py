"""The assignors by name, and the one that a group uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafkafs.serve.coordinator.assignors.hash_order import in_hash_order
from kafkafs.serve.coordinator.assignors.ranges import assign_ranges
from kafkafs.serve.coordinator.assignors.subscriber import Assignor
from kafkafs.serve.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
DEFAULT_ASSIGNOR = "uniform"


def most_wanted(wishes: Iterable[str], default: str = "") -> str:
    """Return the name with the most votes; of several the first in a broker's hash map."""
    votes = Counter(wishes)
    return max(in_hash_order(votes), key=votes.__getitem__, default=default)
