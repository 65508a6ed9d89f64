"""Levels of the cluster's features that a broker knows, by release: it ends at a FeatureLevelRecord with another.

They are those of the classes MetadataVersion and Feature of each release. Before 3.3 the level is not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.plan.loading.broker_failure import BrokerFailure, stops

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
"""Set by a control record, which is read elsewhere."""


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """Levels that a release of the broker knows.

    Attributes:
        least, released, known: levels of metadata.version: the smallest one, the largest one in production, and the
            largest one, which only brokers with unstable.feature.versions.enable accept.
        others: largest level in production of each other feature; None before 4.0, where they are not compared.
        states_range: whether Kafka's sentence for a level that it does not know ends with the range.
    """

    least: int
    released: int
    known: int
    others: Mapping[str, int] | None = None
    states_range: bool = True

    def refusal(self, levels: Mapping[str, int]) -> BrokerFailure | None:
        """Return the failure of a broker that reads these levels of features, by name; None if it knows them."""
        metadata = levels.get(METADATA_VERSION)
        if metadata is not None and not self.least <= metadata <= self.known:
            return stops("IllegalArgumentException", self._unknown_metadata(metadata))
        for name, level in levels.items():
            if name == METADATA_VERSION and level > self.released:
                return _unsupported(name, level, self.least, self.released)
            if self.others is None or name in (METADATA_VERSION, KRAFT_VERSION):
                continue
            if level > self.others.get(name, 0):
                return _unsupported(name, level, 0, self.others.get(name, 0))
        return None

    def _unknown_metadata(self, level: int) -> str:
        says = f"No MetadataVersion with feature level {level}"
        if self.states_range:
            says += f". Valid feature levels are from {self.least} to {self.known}."
        return says


def _unsupported(name: str, level: int, least: int, most: int) -> BrokerFailure:
    record = f"FeatureLevelRecord(name='{name}', featureLevel={level})"
    return stops(
        "RuntimeException",
        f"Tried to apply FeatureLevelRecord {record}, but this controller only supports versions"
        f" {least}-{most}",
    )


_OF_40 = {"transaction.version": 2, "group.version": 1, "eligible.leader.replicas.version": 1}
_OF_41 = {**_OF_40, "share.version": 1}
_OF_42 = {**_OF_41, "streams.version": 1}
FEATURE_LEVELS: dict[tuple[int, int], FeatureLevels] = {
    (3, 3): FeatureLevels(1, 7, 7, states_range=False),
    (3, 4): FeatureLevels(1, 8, 8, states_range=False),
    (3, 5): FeatureLevels(1, 11, 11, states_range=False),
    (3, 6): FeatureLevels(1, 14, 14, states_range=False),
    (3, 7): FeatureLevels(1, 19, 20, states_range=False),
    (3, 8): FeatureLevels(1, 20, 21, states_range=False),
    (3, 9): FeatureLevels(1, 21, 23, states_range=False),
    (4, 0): FeatureLevels(7, 25, 26, _OF_40),
    (4, 1): FeatureLevels(7, 27, 29, _OF_41),
    (4, 2): FeatureLevels(7, 29, 30, _OF_42),
    (4, 3): FeatureLevels(7, 30, 31, _OF_42),
    (4, 4): FeatureLevels(7, 33, 34, {**_OF_42, "share.version": 2}),
}
"""By major and minor number of the release."""
