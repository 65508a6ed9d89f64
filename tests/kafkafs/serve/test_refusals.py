"""Every request that writes is refused in every version: as a whole, or each of its items."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from engine.topics.message.decoding import read_message
from engine.topics.message.schema import Array, Field, Struct, empty
from kafkafs.serve import rare_lines
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.handlers.refusals import REFUSALS
from kafkafs.serve.handlers.refused import READ_ONLY, refuse
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.codec import read_request, write_response
from kafkafs.serve.rare_lines import RareLines
from kafkafs.serve.request import Request
from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import serving
from tests.messages import random_fields

VERSIONS = [
    pytest.param(api, version, id=f"{api.request.name}-{version}")
    for api in REFUSALS
    for version in range(api.request.first_version, api.request.last_version + 1)
]
ERRORS = ("errorCode", "partitionErrorCode", "errorMessage")


def one_of_each(fields: tuple[Field, ...]) -> dict[str, Any]:
    """Fields with one element in each array."""
    return {field.name: one(field) for field in fields}


def one(field: Field) -> Any:
    if not isinstance(field.type, Array):
        return field.absent()
    element = field.type.element
    return [one_of_each(element.fields) if isinstance(element, Struct) else empty(element)]


def answered(api: Api, version: int, fields: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, as a client reads it."""
    asked = read_request(request(api, version, 1, **fields)[4:]).fields
    assert asked is not None
    answer = refuse(REFUSALS[api], Request(version, asked, "", 0))
    assert answer is not None
    data = b"".join(map(bytes, write_response(api, version, 1, answer)))
    start = 9 if api.response.is_flexible(version) else 8
    return read_message(api.response, version, data, start)[0]


def facts(fields: tuple[Field, ...], found: dict[str, Any], version: int) -> Iterator[Any]:
    """The errors and sentences of an answer by the names of their fields, at any depth."""
    for field in fields:
        if not field.is_in(version):
            continue
        if field.name in ERRORS:
            yield field.name, found[field.name]
        elif isinstance(field.type, Array) and isinstance(field.type.element, Struct):
            for each in found[field.name] or ():
                yield from facts(field.type.element.fields, each, version)


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_an_answer_has_the_error_at_each_place_and_says_that_the_server_is_read_only(api, version):
    chance = random.Random(version)
    for _ in range(5):
        asked = random_fields(api.request, version, chance)
        if api is Api.PRODUCE:
            asked["acks"] = 1
        found = list(facts(api.response.fields, answered(api, version, asked), version))
        errors = {fact for name, fact in found if name != "errorMessage"}
        assert errors <= {REFUSALS[api].error}
        assert {fact for name, fact in found if name == "errorMessage"} <= {READ_ONLY}


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_something_in_an_answer_has_an_error(api, version):
    asked = one_of_each(api.request.fields)
    if api is Api.PRODUCE:
        asked["acks"] = 1
    found = dict(facts(api.response.fields, answered(api, version, asked), version))
    assert REFUSALS[api].error in found.values()


def test_each_item_of_a_request_has_the_error_under_its_name():
    topics = [{"name": name, "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []} for name in "ab"]  # fmt: skip
    found = answered(Api.CREATE_TOPICS, 7, {"topics": topics})["topics"]
    assert [each["name"] for each in found] == ["a", "b"]
    assert {each["errorCode"] for each in found} == {ErrorCode.POLICY_VIOLATION}
    found = answered(Api.DELETE_GROUPS, 2, {"groupsNames": ["g", "h"]})["results"]
    assert [each["groupId"] for each in found] == ["g", "h"]


def test_a_producer_that_wants_no_answer_gets_none():
    asked = Request(13, {"acks": 0, "topicData": []}, "", 0)
    assert refuse(REFUSALS[Api.PRODUCE], asked) is None


def test_the_log_tells_a_refused_client_once_and_later_how_often(caplog, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(rare_lines, "monotonic", lambda: clock[0])
    lines = RareLines()
    for _ in range(1000):
        lines.warn("Produce", "1.2.3.4:5 (app): Produce refused")
    lines.warn("CreateTopics", "1.2.3.4:5 (app): CreateTopics refused")
    clock[0] = 61.0
    lines.warn("Produce", "1.2.3.4:6 (app): Produce refused")
    assert [each.getMessage() for each in caplog.records] == [
        "1.2.3.4:5 (app): Produce refused",
        "1.2.3.4:5 (app): CreateTopics refused",
        "1.2.3.4:6 (app): Produce refused, 1000 since the last line",
    ]


def test_a_log_of_many_refused_clients_keeps_the_last_ones(caplog):
    lines = RareLines()
    for number in range(3000):
        lines.warn(number, "refused")
    assert len(caplog.records) == 3000
    lines.warn(2999, "refused")
    lines.warn(0, "refused")
    assert len(caplog.records) == 3001


def test_only_producers_without_a_transactional_id_get_a_producer_id(tmp_path):
    source = copy_of("current", tmp_path, ["orders-0"])
    with serving(source, tmp_path) as served, Connection(served) as connection:
        wanted = {"transactionTimeoutMs": 1, "producerId": -1, "producerEpoch": -1}
        found = [
            connection.ask(Api.INIT_PRODUCER_ID, 4, transactionalId=None, **wanted) for _ in "ab"
        ]
        assert [(each["errorCode"], each["producerEpoch"]) for each in found] == [(0, 0), (0, 0)]
        assert len({each["producerId"] for each in found}) == 2
        refused = connection.ask(Api.INIT_PRODUCER_ID, 4, transactionalId="x", **wanted)
        assert refused["errorCode"] == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert (refused["producerId"], refused["producerEpoch"]) == (-1, -1)
