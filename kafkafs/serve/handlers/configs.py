"""Answer DescribeConfigs: the settings that the cluster's metadata has, and the defaults of topics.

A broker's file of properties is not among the files of a log dir: what it sets is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.errors import InvalidNameError
from engine.files.file_names import validate_topic
from kafkafs.serve.cluster_view import ClusterView
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.setting_types import (
    BROKER_NAMES,
    GROUP_BROKER_NAMES,
    GROUP_DEFAULTS,
    IN_OTHER_UNITS,
    TOPIC_DEFAULTS,
    is_secret,
    setting_type,
)
from kafkafs.serve.placement import shown_nodes
from kafkafs.serve.request import Fields, Request

_TOPIC, _BROKER, _LOGGERS, _METRICS, _GROUP = 2, 4, 8, 16, 32
"""Types of resources with configurations."""
_KINDS = {_TOPIC: "topic", _BROKER: "broker", _METRICS: "client-metrics", _GROUP: "group"}
"""Their names in the cluster's metadata; loggers have no settings there."""
_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS, _DEFAULT, _OF_METRICS, _OF_GROUP = 1, 2, 3, 5, 7, 8
"""Sources of a setting: set for the topic, the broker, all brokers, by nobody, for the subscription, the group."""
_SOURCES = {_TOPIC: _OF_TOPIC, _METRICS: _OF_METRICS, _GROUP: _OF_GROUP}
_DOCUMENTS_SINCE = 3

Found = Mapping[str, list[Fields]]
"""The values of settings by name, first the one that counts; none for the default of a topic alone."""


class _RefusedError(Exception):
    """A resource that cannot be described; the arguments are the error and a sentence or None."""

    def __init__(self, error: ErrorCode, sentence: str | None) -> None:
        super().__init__(error, sentence)
        self.error, self.sentence = error, sentence


def describe_configs(cluster: ClusterView, request: Request) -> Fields:
    """Answer DescribeConfigs."""
    wanted = {
        (each["resourceType"], each["resourceName"]): each for each in request.fields["resources"]
    }
    unknown = [kind for kind, _ in wanted if kind not in (*_KINDS, _LOGGERS)]
    if unknown:
        error = _RefusedError(ErrorCode.INVALID_REQUEST, f"there is no resource type {unknown[0]}")
        return {"results": [_refused(each, error) for each in request.fields["resources"]]}
    return {"results": [_result(cluster, request, each) for each in request.fields["resources"]]}


def _refused(wanted: Fields, error: _RefusedError) -> Fields:
    return {
        "errorCode": error.error,
        "errorMessage": error.sentence,
        "resourceType": wanted["resourceType"],
        "resourceName": wanted["resourceName"],
    }


def _result(cluster: ClusterView, request: Request, wanted: Fields) -> Fields:
    try:
        found = _settings(cluster, wanted["resourceType"], wanted["resourceName"])
    except _RefusedError as error:
        return _refused(wanted, error)
    keys = wanted["configurationKeys"]
    return {
        "errorCode": ErrorCode.NONE,
        "errorMessage": None,
        "resourceType": wanted["resourceType"],
        "resourceName": wanted["resourceName"],
        "configs": [
            _setting(name, values, request)
            for name, values in sorted(found.items())
            if not keys or name in keys
        ],
    }


def _setting(name: str, values: list[Fields], request: Request) -> Fields:
    first = values[0] if values else _value(name, TOPIC_DEFAULTS[name], _DEFAULT)
    return {
        "name": name,
        "value": first["value"],
        "readOnly": True,
        "configSource": first["source"],
        "isSensitive": is_secret(name),
        "synonyms": values if request.fields["includeSynonyms"] else [],
        "configType": setting_type(name),
        "documentation": "" if request.version < _DOCUMENTS_SINCE else None,
    }


def _settings(cluster: ClusterView, kind: int, name: str) -> Found:
    """Return the settings of a resource. Raises _RefusedError for one that is not here."""
    if kind == _TOPIC:
        return _of_topic(cluster, name)
    if kind == _BROKER and not name:
        return _of_brokers(cluster, name)
    if not name:
        raise _RefusedError(ErrorCode.INVALID_REQUEST, "the resource has no name")
    if kind in (_BROKER, _LOGGERS):
        numbers = [str(node.number) for node in shown_nodes(cluster)]
        if name not in numbers:
            sentence = f"{name!r} is not the number of a broker: {', '.join(numbers)}"
            raise _RefusedError(ErrorCode.INVALID_REQUEST, sentence)
    if kind == _BROKER:
        return _of_brokers(cluster, name)
    if kind == _LOGGERS:
        return {}
    stated = _stated(cluster, _KINDS[kind], name)
    found = {key: [_value(key, value, _SOURCES[kind])] for key, value in stated.items()}
    if kind == _GROUP:
        for key, default in GROUP_DEFAULTS.items():
            value = _value(GROUP_BROKER_NAMES[key], default, _DEFAULT)
            found.setdefault(key, []).append(value)
    return found


def _of_topic(cluster: ClusterView, name: str) -> Found:
    try:
        validate_topic(name)
    except InvalidNameError as error:
        raise _RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
    if name not in cluster.topics():
        raise _RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
    found = {
        key: [_value(key, value, _OF_TOPIC)]
        for key, value in _stated(cluster, "topic", name).items()
    }
    brokers = _of_brokers(cluster, str(cluster.node_id))
    for key, theirs in BROKER_NAMES.items():
        if theirs in brokers:
            found.setdefault(key, []).extend(brokers[theirs])
    for key, default in TOPIC_DEFAULTS.items():
        values = found.setdefault(key, [])
        if key in BROKER_NAMES and key not in IN_OTHER_UNITS:
            values.append(_value(BROKER_NAMES[key], default, _DEFAULT))
    return found


def _of_brokers(cluster: ClusterView, node: str) -> Found:
    """Return the settings of a broker, and those of all brokers; of these alone without a number."""
    found: dict[str, list[Fields]] = {}
    for name, source in ((node, _OF_BROKER), ("", _OF_ALL_BROKERS)):
        if name or source == _OF_ALL_BROKERS:
            for key, value in _stated(cluster, "broker", name).items():
                shown = None if is_secret(key) else value
                found.setdefault(key, []).append(_value(key, shown, source))
    return found


def _value(name: str, value: str | None, source: int) -> Fields:
    return {"name": name, "value": value, "source": source}


def _stated(cluster: ClusterView, kind: str, name: str) -> Mapping[str, str]:
    """Return the settings of a resource in the cluster's metadata."""
    image = cluster.image()
    item = None if image is None else image.table("configs").get((kind, name))
    settings: Mapping[str, str] = {} if item is None else item.facts["configs"]
    return settings
