"""The assignors by name."""

from __future__ import annotations

from collections.abc import Mapping

from kafkafs.serve.coordinator.assignors.ranges import assign_ranges
from kafkafs.serve.coordinator.assignors.subscriber import Assignor
from kafkafs.serve.coordinator.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
DEFAULT_ASSIGNOR = "uniform"
