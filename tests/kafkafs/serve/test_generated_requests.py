"""Random requests of all served APIs and versions are answered, those that write too, and none is an error of the server."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from kafkafs.serve.protocol.api import Api
from tests.fixtures_data import log_dir
from tests.kafka.wire.generator import Generator
from tests.kafka.wire.known import known
from tests.kafka.wire.peers import Peer
from tests.kafkafs.serve.serving import Served, serving

API_VERSIONS = 18
EACH = 12
"""Requests of each API and version."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(log_dir("current"), tmp_path_factory.mktemp("log"), "--snapshot") as found:
        yield found


def test_every_generated_request_is_answered_or_ends_its_connection(served):
    with Peer(served.bootstrap) as peer:
        stated = peer.ask(API_VERSIONS, 0, {}).fields
        assert stated is not None
        generator, random = Generator(known(peer), {}), Random(1)
        answered = 0
        for key in [each["apiKey"] for each in stated["apiKeys"]]:
            request = Api(key).request
            for version in range(request.first_version, request.last_version + 1):
                for _ in range(EACH):
                    found = peer.ask(key, version, generator.fields(key, version, random))
                    assert found.left == "", (key, version)
                    answered += found.fields is not None
    assert answered > 1000
    assert "Traceback" not in served.log.read_text()
