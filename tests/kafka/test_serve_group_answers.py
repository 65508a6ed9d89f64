"""Members of groups get from `kafkafs serve` the answers of a real broker over the same directory."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import pytest

from tests.fixtures_data import log_dir
from tests.kafka.wire import directories
from tests.kafka.wire.directories import Both
from tests.kafka.wire.peers import Peer

COMMIT, FETCH, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = 8, 9, 11, 12, 13, 14, 15, 16
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 68, 69
NOT_COMPARED = ("throttleTimeMs", "heartbeatIntervalMs", "authorizedOperations")
ZERO_ID, OTHER_ID = "A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ"
MADE_ID = re.compile(r".*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_-]{22}")
"""An id that a server made up, for a classic member or for one of a consumer group."""
SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
"""What a classic consumer sends; a broker does not answer JoinGroup when it cannot read that."""
Fields = dict[str, Any]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    home = tmp_path_factory.mktemp("groups")
    directories.copied(log_dir("current"), home)
    settings = {"group.initial.rebalance.delay.ms": 100, "group.consumer.assignment.interval.ms": 0}
    with directories.both(home, settings) as found:
        yield found


class Member:
    """A client of one server, which notes the answers; ids that the server makes up have numbers."""

    def __init__(self, peer: Peer, group: str) -> None:
        self._peer = Peer(f"{peer.host}:{peer.port}")
        self.group = group
        self.noted: list[object] = []
        self._ids: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.close()

    def ask(self, key: int, version: int, **fields: Any) -> Fields:
        """A request and its answer, which is noted."""
        answer = self._peer.ask(key, version, fields)
        assert not answer.left
        assert answer.fields is not None, (key, version, fields)
        self.noted.append((key, version, self._shown(answer.fields)))
        return answer.fields

    def later(
        self, request: Callable[..., Fields], *args: Any, **fields: Any
    ) -> Callable[[], Fields]:
        """Send a request that waits for others; what is returned waits for its answer."""
        found: list[Fields] = []
        thread = threading.Thread(
            target=lambda: found.append(request(*args, **fields)), daemon=True
        )
        thread.start()

        def answer() -> Fields:
            thread.join(30)
            return found[0]

        return answer

    def wait_for(self, state: str) -> None:
        """Wait until the group is in a state."""
        end = time.monotonic() + 30
        while True:
            answer = self._peer.ask(DESCRIBE, 4, {"groups": [self.group]}).fields or {}
            if answer["groups"][0]["groupState"] == state:
                return
            assert time.monotonic() < end, answer
            time.sleep(0.02)

    def _shown(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {
                key: self._shown(each, key)
                for key, each in value.items()
                if key not in NOT_COMPARED
            }
        if isinstance(value, list):
            shown = [self._shown(each, name) for each in value]
            if name == "members" and not any("errorCode" in each for each in shown):
                shown.sort(key=lambda each: str(each["memberId"]))  # a hash map's order
            return shown
        if name in ("memberId", "leader") and MADE_ID.fullmatch(value or ""):
            return self._ids.setdefault(value, f"#{len(self._ids)}")
        return bool(value) if name == "errorMessage" else value

    def join(self, member: str = "", version: int = 9, **fields: Any) -> Fields:
        protocols = fields.pop("protocols", {"range": SUBSCRIPTION})
        given = {
            "groupId": self.group, "sessionTimeoutMs": 30_000, "rebalanceTimeoutMs": 30_000, "memberId": member,
            "groupInstanceId": None, "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": data} for name, data in protocols.items()],
        }  # fmt: skip
        return self.ask(
            JOIN,
            version,
            **_known(version, given | fields, groupInstanceId=5, rebalanceTimeoutMs=1),
        )

    def enter(self, version: int = 9, **fields: Any) -> str:
        """Both JoinGroups of a dynamic member."""
        answer = self.join("", version, **fields)
        if answer["errorCode"] == 79:
            answer = self.join(answer["memberId"], version, **fields)
        return str(answer["memberId"])

    def sync(
        self, member: str, generation: int = 1, version: int = 5, assign: Any = None, **fields: Any
    ) -> Fields:
        given = {
            "groupId": self.group, "generationId": generation, "memberId": member, "groupInstanceId": None,
            "protocolType": "consumer", "protocolName": "range",
            "assignments": [{"memberId": name, "assignment": data} for name, data in (assign or {}).items()],
        }  # fmt: skip
        return self.ask(
            SYNC,
            version,
            **_known(version, given | fields, groupInstanceId=3, protocolType=5, protocolName=5),
        )

    def beat(self, member: str, generation: int = 1, version: int = 4, **fields: Any) -> Fields:
        given = {
            "groupId": self.group,
            "generationId": generation,
            "memberId": member,
            "groupInstanceId": None,
        }
        return self.ask(HEARTBEAT, version, **_known(version, given | fields, groupInstanceId=3))

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> Fields:
        if version < 3:
            return self.ask(LEAVE, version, groupId=self.group, memberId=members[0][0])
        named = [{"memberId": name, "groupInstanceId": instance} for name, instance in members]
        return self.ask(LEAVE, version, groupId=self.group, members=named)

    def commit(
        self, member: str = "", generation: int = -1, version: int = 9, **fields: Any
    ) -> Fields:
        partition = {
            "partitionIndex": fields.pop("partition", 0), "committedOffset": fields.pop("offset", 7),
            "committedLeaderEpoch": 2, "committedMetadata": fields.pop("metadata", "mine"),
        }  # fmt: skip
        topic = {"name": fields.pop("topic", "orders"), "topicId": fields.pop("topic_id", ZERO_ID)}
        given = {
            "groupId": self.group, "generationIdOrMemberEpoch": generation, "memberId": member, "groupInstanceId": None,
            "topics": [_known(version, topic | {"partitions": [_known(version, partition, committedLeaderEpoch=6)]},
                              topicId=10, name=-9)],
        }  # fmt: skip
        return self.ask(COMMIT, version, **_known(version, given | fields, groupInstanceId=7))

    def fetch(self, version: int = 9, topics: Any = (), **fields: Any) -> Fields:
        if topics == ():
            topics = [{"name": "orders", "partitionIndexes": [0, 1]}]
        if version < 8:
            return self.ask(FETCH, version, groupId=self.group, topics=topics)
        wanted = {"groupId": self.group, "topics": topics} | fields
        return self.ask(FETCH, version, groups=[wanted])

    def live(self, member: str, epoch: int, version: int = 1, **fields: Any) -> Fields:
        """ConsumerGroupHeartbeat that states nothing but what the test says."""
        owned = fields.pop("owned", None)
        given = {
            "groupId": self.group, "memberId": member, "memberEpoch": epoch, "instanceId": None, "rackId": None,
            "rebalanceTimeoutMs": -1, "subscribedTopicNames": None, "serverAssignor": None,
            "topicPartitions": owned if owned is None else
            [{"topicId": topic, "partitions": numbers} for topic, numbers in owned.items()],
        }  # fmt: skip
        return self.ask(CONSUMER_HEARTBEAT, version, **given | fields)

    def become(self, member: str, **fields: Any) -> Fields:
        """The first ConsumerGroupHeartbeat of a member."""
        first: Fields = {
            "rebalanceTimeoutMs": 30_000,
            "owned": {},
            "subscribedTopicNames": ["orders"],
        }
        return self.live(member, 0, **first | fields)

    def describe(self) -> None:
        """All that is told about the group."""
        for version in (4, 6):
            self.ask(DESCRIBE, version, groups=[self.group])
        for version in (0, 1):
            self.ask(CONSUMER_DESCRIBE, version, groupIds=[self.group])
        answer = self._peer.ask(LIST, 5, {}).fields or {}
        self.noted.append([each for each in answer["groups"] if each["groupId"] == self.group])


def _known(version: int, fields: Fields, **since: int) -> Fields:
    """The fields that a version has; a negative number is the last version with a field."""
    return {
        name: value
        for name, value in fields.items()
        if name not in since
        or (version >= since[name] if since[name] >= 0 else version <= -since[name])
    }


Scenario = Callable[[Member], None]
SCENARIOS: list[Scenario] = []


def scenario(act: Scenario) -> Scenario:
    SCENARIOS.append(act)
    return act


@scenario
def every_version(me: Member) -> None:
    for version in range(10):
        me.group = f"every {version}"
        member = me.enter(version)
        me.sync(member, version=min(version, 5), assign={member: b"all"})
        me.beat(member, version=min(version, 4))
        me.commit(member, 1, version=max(version, 2))
        me.describe()
        me.leave((member, None), version=min(version, 5))
        me.beat(member, version=min(version, 4))
        me.describe()


@scenario
def refused_joins(me: Member) -> None:
    me.join(groupId="")
    me.join("me", groupId="")
    me.join(sessionTimeoutMs=5999)
    me.join(sessionTimeoutMs=1_800_001)
    me.join(protocols={})
    me.join(protocolType="")
    me.join("ghost", groupId="refused never seen")
    me.enter()
    for version in (3, 9):
        me.join("ghost", version)
    me.join(protocols={"other": b""})
    me.join(protocolType="connect")
    me.join("ghost", groupInstanceId="none")
    me.describe()


@scenario
def unknown_groups(me: Member) -> None:
    for group in ("", "unknown"):
        me.group = group
        me.sync("me")
        me.beat("me")
        me.leave(("me", None))
        me.leave(("me", None), ("", "one"))
        me.leave(("me", None), version=1)
        me.fetch()
        me.describe()
        for version in (2, 8, 9):
            me.commit("me", 1, version)


@scenario
def generations_and_protocols(me: Member) -> None:
    member = me.enter()
    me.commit(member, 1)
    me.beat(member)
    me.join(member)
    me.sync(member, 0)
    me.sync(member, 2)
    me.sync("ghost")
    me.sync(member, protocolType="connect")
    me.sync(member, protocolName="sticky")
    me.sync(
        member,
        protocolType="consumer",
        protocolName="range",
        assign={member: b"all", "ghost": b"none"},
    )
    me.sync(member)
    me.beat(member, 0)
    me.beat(member, 2)
    me.beat("ghost")
    me.commit(member, 0)
    me.commit("ghost", 1)
    me.commit()
    me.commit("", -1, 2)
    me.join(member)
    me.sync(member, 2, assign={})
    me.describe()


@scenario
def static_members(me: Member) -> None:
    first = str(me.join(groupInstanceId="one")["memberId"])
    me.sync(first, groupInstanceId="one", assign={first: b"all"})
    for version in (8, 9):
        again = str(me.join(version=version, groupInstanceId="one")["memberId"])
        me.beat(first, groupInstanceId="one")
        me.sync(first, groupInstanceId="one")
        me.commit(first, 1, groupInstanceId="one")
        me.join(first, groupInstanceId="one")
        me.beat(again, groupInstanceId="one")
        me.beat(again, groupInstanceId="two")
        me.sync(again, groupInstanceId="one")
        me.leave((first, "one"))
        first = again
    me.describe()
    me.leave(("", "two"), ("", "one"), ("ghost", None))
    me.describe()


@scenario
def pending_ids(me: Member) -> None:
    given = str(me.join()["memberId"])
    me.beat(given, 0)
    me.leave((given, None))
    me.join(given)
    given = str(me.join()["memberId"])
    me.join(given)
    me.join(given)


@scenario
def a_rebalance(me: Member) -> None:
    first = me.enter()
    me.sync(first, assign={first: b"all"})
    with Member(me._peer, me.group) as other:
        _rebalance(me, first, other)
    me.noted += other.noted


def _rebalance(me: Member, first: str, other: Member) -> None:
    given = str(other.join()["memberId"])
    joined = other.later(other.join, given)
    me.wait_for("PreparingRebalance")
    me.beat(first)
    me.sync(first)
    me.commit(first, 1)
    me.describe()
    me.join(first)
    assert joined()["generationId"] == 2
    me.commit(first, 2)
    me.beat(first, 2)
    synced = other.later(other.sync, given, 2)
    me.sync(first, 2, assign={first: b"half", given: b"other half"})
    synced()
    me.leave((first, None))
    other.beat(given, 2)
    other.join(given)
    other.sync(given, 3, assign={given: b"all"})


@scenario
def strategies(me: Member) -> None:
    member = me.enter(protocols={"a": b"1", "b": b"2"})
    me.sync(member, assign={})
    me.join(member, protocols={"b": b"2", "a": b"1"})
    me.join(member, protocols={"b": b"3"})
    me.sync(member, 3)
    me.describe()


@scenario
def commits(me: Member) -> None:
    for version in range(2, 10):
        me.commit("", -1, version, offset=version)
        me.fetch()
    for version in range(1, 10):
        me.fetch(version)
    me.commit(topic="unknown")
    me.commit(topic="")
    me.commit(version=10, topic_id=OTHER_ID)
    me.commit(version=10)
    me.commit(metadata="x" * 4096)
    me.commit(metadata="x" * 4097)
    me.commit(metadata=None)
    me.commit(offset=-1)
    me.commit(partition=99)
    me.commit(partition=-1)
    me.fetch(topics=None)
    me.fetch(topics=[])
    me.commit("me", 1)
    me.commit("me", -1)
    me.commit(groupInstanceId="one")
    me.fetch(memberId="me", memberEpoch=1)
    me.group = "billing-0"
    me.fetch(topics=None)
    me.commit("me", 1)
    me.describe()
    me.commit(offset=60)
    me.fetch(topics=None)


@scenario
def consumer_requests(me: Member) -> None:
    me.become("")
    me.become("", version=0, groupId="consumer without id")
    me.become("me", groupId="")
    me.become("me", rebalanceTimeoutMs=-1)
    me.become("me", owned=None)
    me.become("me", owned={OTHER_ID: [0]})
    me.become("me", subscribedTopicNames=None)
    me.become("me", instanceId="")
    me.become("me", rackId="")
    me.become("me", serverAssignor="sticky")
    me.become("me", subscribedTopicNames=None, subscribedTopicRegex="(")
    me.live("me", -2)
    me.live("me", -3)
    me.live("me", -1)
    me.live("", 1, 0)
    me.live("", -1, 0)
    me.describe()


@scenario
def a_consumer(me: Member) -> None:
    for version in (0, 1):
        me.group = f"a consumer {version}"
        answer = me.become("me", version=version)
        epoch = answer["memberEpoch"]
        (assigned,) = answer["assignment"]["topicPartitions"]
        owned = {assigned["topicId"]: assigned["partitions"]}
        me.live("me", epoch, version)
        me.live("me", epoch, version, owned=owned)
        whole = {"rebalanceTimeoutMs": 30_000, "subscribedTopicNames": ["orders"]}
        me.live("me", epoch, version, owned=owned, **whole)
        me.live("me", epoch + 1, version)
        me.live("ghost", epoch, version)
        me.commit("me", epoch)
        me.commit("me", epoch, 8)
        me.commit("me", epoch + 1)
        me.commit("ghost", epoch)
        me.commit()
        me.fetch(memberId="me", memberEpoch=epoch)
        me.fetch(memberId="me", memberEpoch=epoch + 1)
        me.fetch(memberId="ghost", memberEpoch=epoch)
        me.fetch()
        me.describe()
        me.live("me", -1, version)
        me.live("me", epoch, version)
        me.live("me", -1, version)
        me.describe()


@scenario
def two_consumers(me: Member) -> None:
    epoch = me.become("a")["memberEpoch"]
    me.become("b")
    me.describe()
    answer = me.live("a", epoch)
    (kept,) = answer["assignment"]["topicPartitions"]
    owned = {kept["topicId"]: kept["partitions"]}
    me.live("a", epoch, owned={kept["topicId"]: [0, 1, 2]})
    me.live("b", epoch + 1, owned={})
    me.describe()
    me.live("a", epoch, owned=owned)
    me.live("b", epoch + 1, owned={})
    me.describe()
    for offset, member in enumerate("ab"):
        for partition in range(3):
            me.commit(member, epoch, partition=partition, offset=offset)
    me.live("b", epoch + 1, subscribedTopicNames=["orders", "codec-zstd", "unknown"])
    me.live("a", epoch + 1)
    me.describe()
    me.live("b", -1)
    me.live("a", epoch + 1)
    me.live("a", epoch + 2)
    me.live("a", epoch + 3)
    me.describe()


@scenario
def static_consumers(me: Member) -> None:
    me.become("a", instanceId="one")
    me.become("b", instanceId="one")
    me.live("b", 1, instanceId="one")
    me.live("b", 1, instanceId="two")
    me.live("a", -2)
    me.live("b", -2, instanceId="one")
    me.live("b", -1, instanceId="one")
    me.live("a", -2, instanceId="one")
    me.live("a", 1, instanceId="one")
    me.describe()
    me.become("b", instanceId="one")
    me.live("a", -1, instanceId="one")
    me.live("b", -1, instanceId="one")
    me.describe()


@pytest.mark.parametrize("act", SCENARIOS, ids=lambda act: act.__name__)
def test_members_get_the_broker_s_answers(both: Both, act: Scenario) -> None:
    with Member(both.broker, act.__name__) as theirs, Member(both.ours, act.__name__) as ours:
        act(theirs)
        act(ours)
    assert len(theirs.noted) == len(ours.noted)
    different = [(a, b) for a, b in zip(theirs.noted, ours.noted, strict=True) if a != b]
    assert different == [], "\n".join(f"- {a}\n+ {b}" for a, b in different)
