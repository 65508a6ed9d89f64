"""Answers are written as the reader that Kafka's own bytes have proven reads them, in every version."""

from __future__ import annotations

import pytest

from engine.topics.message.decoding import read_message
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.protocol.api import Api
from kafkafs.serve.protocol.codec import read_request, write_response
from tests.kafkafs.serve.connection import request

VERSIONS = [
    (api, version)
    for api in Api
    for version in range(api.request.first_version, api.request.last_version + 1)
]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_an_answer_without_fields_has_their_defaults(key, version):
    data = b"".join(write_response(key, version, 77, {}))
    message = Api(key).response
    start = 9 if message.is_flexible(version) and key != Api.API_VERSIONS else 8
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    assert int.from_bytes(data[4:8], "big") == 77
    fields, end = read_message(message, version, data, start)
    assert end == len(data)
    assert fields == {field.name: field.absent() for field in message.fields}


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_a_request_is_read_with_its_header(key, version):
    got = read_request(request(key, version, 5)[4:])
    assert (got.key, got.version, got.correlation, got.client_id) == (key, version, 5, "test")
    message = Api(key).request
    assert got.fields == {field.name: field.absent() for field in message.fields}


@pytest.mark.parametrize("version", range(4, 19))
def test_records_stand_between_the_bytes_around_them(version):
    partition = {
        "partitionIndex": 3, "errorCode": ErrorCode.NONE, "highWatermark": 9,
        "records": (b"first", memoryview(b"second")), "abortedTransactions": None,
    }  # fmt: skip
    answer = {
        "responses": [
            {"topic": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": [partition]}
        ]
    }
    pieces = write_response(1, version, 1, answer)
    data = b"".join(pieces)
    fields, end = read_message(Api(1).response, version, data, 9 if version >= 12 else 8)
    assert end == len(data)
    found = fields["responses"][0]["partitions"][0]
    assert (found["records"], found["highWatermark"]) == (b"firstsecond", 9)
    assert found["abortedTransactions"] is None
