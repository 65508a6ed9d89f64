"""The configuration of a log: the topic's own, over the broker's dynamic and static settings, over Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.replay.cluster import ClusterImage
from engine.replay.cluster_tables import Item
from engine.topics.topic_names import CONSUMER_OFFSETS
from engine.usage.topic_configs import TopicConfigs

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def image(topics: Mapping[str, Mapping[str, str]], **brokers: Mapping[str, str]) -> ClusterImage:
    """Metadata with topics' configurations, and those of brokers ("all", or "broker_1")."""

    def item(facts: dict[str, Any]) -> Item:
        return Item(facts, 0, 0)

    configs = {("topic", name): item({"configs": dict(values)}) for name, values in topics.items()}
    for name, values in brokers.items():
        number = name.removeprefix("broker_").replace("all", "")
        configs["broker", number] = item({"configs": dict(values)})
    tables: dict[str, Any] = {
        "topics": {name: item({"name": name, "topicId": name}) for name in topics},
        "configs": configs,
    }
    return ClusterImage(
        snapshot=None,
        next_offset=0,
        newest_offset=-1,
        timestamp=-1,
        tables=tables,
        partitions={},
        waiting=None,
        notes=(),
        unreadable=(),
        missing=None,
    )


def test_without_anything_kafkas_defaults_hold() -> None:
    rules = TopicConfigs(None, None, {}).of("orders")
    assert (rules.policy, rules.is_known, rules.is_tiered) == ("delete", False, False)
    assert (rules.config.retention_ms, rules.config.retention_size) == (7 * DAY_MS, -1)


def test_groups_offsets_are_compacted_also_without_metadata() -> None:
    assert TopicConfigs(None, None, {}).of(CONSUMER_OFFSETS).policy == "compact"


@pytest.mark.parametrize(
    ("settings", "retention"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.minutes": "3", "log.retention.hours": "2"}, 180_000),
        ({"log.retention.ms": "5", "log.retention.minutes": "3"}, 5),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "2"}, -1),
    ],
)
def test_the_finest_unit_of_a_brokers_setting_counts(
    settings: dict[str, str], retention: int
) -> None:
    assert TopicConfigs(None, None, settings).of("orders").config.retention_ms == retention


def test_a_topics_own_setting_is_stronger_than_a_brokers() -> None:
    known = image({"own": {"retention.ms": "1"}, "none": {}}, all={"log.retention.ms": "2"})
    configs = TopicConfigs(known, 1, {"log.retention.ms": "3"})
    assert configs.of("own").config.retention_ms == 1
    assert configs.of("none").config.retention_ms == 2
    assert configs.of("none").is_known
    assert not configs.of("absent").is_known


def test_the_setting_of_one_broker_is_stronger_than_that_of_all() -> None:
    known = image({"t": {}}, all={"log.retention.ms": "2"}, broker_1={"log.retention.ms": "4"})
    assert TopicConfigs(known, 1, {}).of("t").config.retention_ms == 4
    assert TopicConfigs(known, 7, {}).of("t").config.retention_ms == 2


def test_a_tiered_topic_is_kept_by_its_local_retention() -> None:
    own = {"remote.storage.enable": "true", "retention.ms": "9", "local.retention.ms": "3"}
    known = image(
        {
            "tiered": own,
            "like": {**own, "local.retention.ms": "-2"},
            "stopped": {**own, "remote.log.copy.disable": "true"},
        }
    )
    configs = TopicConfigs(known, None, {})
    assert configs.of("tiered").config.retention_ms == 3
    assert configs.of("tiered").is_tiered
    assert configs.of("like").config.retention_ms == 9
    assert configs.of("stopped").config.retention_ms == 9
    assert not configs.of("stopped").is_tiered


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"log.retention.days": "1"}, "log.retention.days is none of"),
        ({"log.retention.hours": "many"}, "must be an integer"),
        ({"log.retention.bytes": "1kB"}, "must be an integer"),
        ({"log.cleanup.policy": "shred"}, "cleanup.policy must be"),
    ],
)
def test_a_setting_that_no_broker_takes_is_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TopicConfigs(None, None, settings)


def test_a_topics_value_that_no_broker_takes_is_refused_when_it_is_asked_for() -> None:
    configs = TopicConfigs(image({"t": {"retention.ms": "soon"}}), None, {})
    with pytest.raises(ValueError, match=r"retention\.ms"):
        configs.of("t")


def test_a_dynamic_setting_that_no_broker_takes_has_no_effect() -> None:
    known = image({"t": {}}, all={"log.retention.hours": "soon"})
    assert TopicConfigs(known, 1, {}).of("t").config.retention_ms == 7 * DAY_MS
