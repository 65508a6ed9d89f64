"""Configuration of topics' logs: from the cluster's metadata, over the broker's settings, over Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from engine.replay.cluster import ClusterImage
from engine.topics.topic_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from engine.writing.log_config import HOUR_MS, MINUTE_MS, LogConfig

_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        *(("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS)),
        ("log.retention.hours", HOUR_MS),
    ),
}
"""A broker's settings for a topic's property, the strongest first, and their units in the property's."""
BROKER_SETTINGS = tuple(sorted(name for each in _SYNONYMS.values() for name, _ in each))
"""The settings of a broker that can be given."""
_COMPACTED = (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
_LIKE_RETENTION = -2


class LogRules(NamedTuple):
    """What decides about a log's segments.

    Attributes:
        config: the configuration, with the local retention of a tiered topic as its retention.
        is_known: whether the metadata names the topic; else the configuration is the broker's.
        is_tiered: whether only segments go that are in the remote tier.
    """

    config: LogConfig
    is_known: bool
    is_tiered: bool

    @property
    def policy(self) -> str:
        """The cleanup policies as Kafka writes them, "none" without one."""
        config = self.config
        names = [name for name in ("compact", "delete") if getattr(config, name)]
        return ",".join(names) or "none"


class TopicConfigs:
    """Configurations by topic.

    Args:
        image: the cluster's metadata; None for a source without it.
        node_id: number of the broker, for its own dynamic settings; None if unknown.
        settings: settings of the broker's server.properties, by name.

    Attributes:
        broker: properties of topics that do not set them, by Kafka's names.

    Raises:
        ValueError: an unknown setting, or a value that a broker refuses.
    """

    def __init__(
        self, image: ClusterImage | None, node_id: int | None, settings: Mapping[str, str]
    ) -> None:
        unknown = sorted(set(settings).difference(BROKER_SETTINGS))
        if unknown:
            raise ValueError(f"{unknown[0]} is none of {', '.join(BROKER_SETTINGS)}")
        self._image = image
        self.broker = _by_synonyms(settings)
        _parsed(self.broker)
        for name in ("", None if node_id is None else str(node_id)):
            with suppress(ValueError):  # a value that no broker takes has no effect
                self.broker.update(_by_synonyms(self._dynamic(name)))

    def of(self, topic: str) -> LogRules:
        """Return what decides about the logs of a topic."""
        facts = None if self._image is None else self._image.topic_facts(topic)
        properties = dict(self.broker)
        if facts is not None:
            properties.update(facts["configs"])
        elif topic in _COMPACTED:
            properties["cleanup.policy"] = "compact"
        is_tiered = (
            properties.get("remote.storage.enable") == "true"
            and properties.get("remote.log.copy.disable") != "true"
        )
        config = _parsed(properties, is_tiered=is_tiered)
        return LogRules(config, facts is not None, is_tiered)

    def _dynamic(self, broker: str | None) -> Mapping[str, str]:
        """Return the settings of a broker that were changed while it ran, "" for all brokers."""
        item = None
        if self._image is not None and broker is not None:
            item = self._image.table("configs").get(("broker", broker))
        return {} if item is None else item.facts["configs"]


def _by_synonyms(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of topics that a broker's settings state."""
    found: dict[str, str] = {}
    for name, synonyms in _SYNONYMS.items():
        for setting, unit in synonyms:
            value = settings.get(setting)
            if value is None:
                continue
            try:
                found[name] = value if unit == 1 else str(max(int(value) * unit, -1))
            except ValueError:
                raise ValueError(f"{setting} must be an integer, not {value!r}") from None
            break
    return found


def _parsed(properties: Mapping[str, str], *, is_tiered: bool = False) -> LogConfig:
    """Return the configuration; properties of no effect on what is deleted are left out.

    Raises:
        ValueError: a value that a broker refuses.
    """
    known = {name: value for name, value in properties.items() if name in _SYNONYMS}
    for name in ("retention.ms", "retention.bytes"):
        local = int(known.pop(f"local.{name}", _LIKE_RETENTION))
        if is_tiered and local != _LIKE_RETENTION:
            known[name] = str(local)
    return LogConfig.from_properties(known)
