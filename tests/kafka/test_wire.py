"""A real broker and `kafkafs serve` over the same directory give the same answers to the same random requests."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkafs.serve.protocol.api import Api
from tests.fixtures_data import log_dir
from tests.kafka import jars
from tests.kafka.wire import directories
from tests.kafka.wire.conversation import WEIGHTS, Conversation, Difference
from tests.kafka.wire.differences import (
    DESCRIBE_CONFIGS,
    DESCRIBE_PRODUCERS,
    OTHER,
    TOLD,
    differences,
)
from tests.kafka.wire.directories import Both
from tests.kafka.wire.generator import Generator
from tests.kafka.wire.known import Known, known
from tests.kafka.wire.members.conversation import MemberConversation
from tests.kafka.wire.members.ids import Ids
from tests.kafka.wire.peers import API_VERSIONS_KEY, REFUSES_OTHER_NODES, Answer

SEED = 1
BATCHES, BATCH = 50, 100
MEMBERS = 30
"""Batches of requests of members of groups."""
OF_MEMBERS = {8, 9, 10, 11, 12, 13, 14, 15, 16, 68, 69}


@contextmanager
def both_over_a_copy(home: Path, version: str = jars.CURRENT) -> Iterator[Both]:
    """A broker and `kafkafs serve` over copies of a directory."""
    directories.copied(log_dir("current"), home)
    with directories.both(home, version=version) as found:
        yield found


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with both_over_a_copy(tmp_path_factory.mktemp("wire")) as found:
        yield found


@pytest.fixture(scope="module")
def facts(both: Both) -> Known:
    return known(both.broker)


def test_random_requests_have_the_broker_s_answers(both: Both, facts: Known) -> None:
    found: list[Difference] = []
    asked: set[tuple[int, int]] = set()
    for number in range(BATCHES):
        conversation = Conversation(both, facts, Random(f"{SEED} {number * BATCH}"))
        found += conversation.run(BATCH)
        asked |= conversation.asked.keys()
    found = [each for each in found if each.request[:2] != REFUSES_OTHER_NODES]
    assert found == [], "\n".join(map(str, found[:5]))
    assert asked == {
        (key, version)
        for key in WEIGHTS
        for version in range(Api(key).request.first_version, Api(key).request.last_version + 1)
    }


def test_members_of_groups_have_the_broker_s_answers(tmp_path: Path) -> None:
    found: list[Difference] = []
    asked: set[tuple[int, int]] = set()
    parted = 0
    # The broker writes what its members commit, which other tests would see.
    with both_over_a_copy(tmp_path, directories.MEMBERS_VERSION) as both:
        facts = known(both.broker)
        for number in range(MEMBERS):
            name = f"{SEED} {number * BATCH}"
            with MemberConversation(both, facts, Random(name), f"members {name}") as conversation:
                found += conversation.run(BATCH)
            asked |= conversation.asked.keys()
            parted += conversation.parted
    assert found == [], "\n".join(map(str, found[:5]))
    assert asked == {
        (key, version)
        for key in OF_MEMBERS
        for version in range(Api(key).request.first_version, Api(key).request.last_version + 1)
    }
    assert parted < MEMBERS


def test_members_are_told_apart_by_the_ids_that_both_servers_gave_them() -> None:
    ids = Ids()
    theirs, ours = (f"wire-{digit * 8}-1111-1111-1111-111111111111" for digit in "ab")
    ids.learn({"memberId": theirs}, {"memberId": ours})
    assert ids.shown({"leader": theirs}, 0) == ids.shown({"leader": ours}, 1) == {"leader": "#0"}
    assert ids.shown({"leader": theirs}, 1) == {"leader": "wire-?"}
    assert ids.shown({"leader": "own"}, 0) == {"leader": "own"}


def test_a_difference_in_any_field_is_told(both: Both, facts: Known) -> None:
    generator, random = Generator(facts, WEIGHTS), Random(SEED)
    told = 0
    for _ in range(300):
        key, version, fields = generator.request(random)
        answer = both.broker.ask(key, version, fields).fields
        if answer is None or key in (API_VERSIONS_KEY, DESCRIBE_CONFIGS, DESCRIBE_PRODUCERS):
            continue
        other = copy.deepcopy(answer)
        free = {each.path for each in (*OTHER, *TOLD) if each.is_of(key)}
        places = [each for each in leaves(other, "") if each[2] not in free]
        if places:
            where, name, _ = random.choice(places)
            where[name] = changed(where[name])
            assert differences(key, Answer(answer), Answer(other)), (key, name)
            told += 1
    assert told > 200


def leaves(value: Any, inside: str) -> Iterator[tuple[Any, Any, str]]:
    """The structures and arrays with their names that hold a value that is neither; and the field it is in."""
    for name in value.keys() if isinstance(value, dict) else range(len(value)):
        field = name if isinstance(name, str) else inside
        if isinstance(value[name], dict | list):
            yield from leaves(value[name], field)
        else:
            yield value, name, field


def changed(value: object) -> object:
    """Another value of the same kind."""
    if isinstance(value, bytes):
        return value + b"\0"
    if isinstance(value, int):
        return int(value) + 1
    return f"{value}x"


def test_bytes_that_no_field_has_are_told() -> None:
    known_field = Answer({"errorCode": 0}, "")
    assert differences(3, known_field, Answer({"errorCode": 0}, "2 bytes behind the answer"))


def test_a_closed_connection_is_told() -> None:
    assert differences(3, Answer({}), Answer(None))
    assert differences(3, Answer(None), Answer(None)) == []


def test_the_server_had_no_error_of_its_own(both: Both) -> None:
    assert "Traceback" not in Path(both.server.log).read_text()
