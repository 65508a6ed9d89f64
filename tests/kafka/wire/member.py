"""A member of a group at one server, which notes the answers it gets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from tests.kafka.wire.embedded import subscription
from tests.kafka.wire.members.ids import MADE
from tests.kafka.wire.peers import Peer

COMMIT, FETCH, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = 8, 9, 11, 12, 13, 14, 15, 16
CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 68, 69
NOT_COMPARED = ("throttleTimeMs", "heartbeatIntervalMs", "authorizedOperations")
ZERO_ID, OTHER_ID = "A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ"
SUBSCRIPTION = subscription(["orders"], version=0)
"""What a classic consumer sends; a broker does not answer JoinGroup when it cannot read that."""
Fields = dict[str, Any]


class Member:
    """A client of one server, which notes the answers; ids that the server makes up have numbers.

    Attributes:
        peer: its connection.
        group: the group of the next requests.
        noted: the answers.
    """

    def __init__(self, peer: Peer, group: str) -> None:
        self.peer = Peer(f"{peer.host}:{peer.port}")
        self.group = group
        self.noted: list[object] = []
        self._ids: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.peer.close()

    def ask(self, key: int, version: int, **fields: Any) -> Fields:
        """A request and its answer, which is noted."""
        answer = self.peer.ask(key, version, fields)
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
            answer = self.peer.ask(DESCRIBE, 4, {"groups": [self.group]}).fields or {}
            if answer["groups"][0]["groupState"] == state:
                return
            assert time.monotonic() < end, answer
            time.sleep(0.02)

    def wait_for_epoch(self, epoch: int) -> None:
        """Wait until a consumer group has an epoch: the topics of a new pattern are looked up after its heartbeat."""
        end = time.monotonic() + 30
        while True:
            answer = self.peer.ask(CONSUMER_DESCRIBE, 0, {"groupIds": [self.group]}).fields or {}
            if answer["groups"][0]["groupEpoch"] == epoch:
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
        if name in ("memberId", "leader") and MADE.fullmatch(value or ""):
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
        answer = self.peer.ask(LIST, 5, {}).fields or {}
        self.noted.append([each for each in answer["groups"] if each["groupId"] == self.group])


def _known(version: int, fields: Fields, **since: int) -> Fields:
    """The fields that a version has; a negative number is the last version with a field."""
    return {
        name: value
        for name, value in fields.items()
        if name not in since
        or (version >= since[name] if since[name] >= 0 else version <= -since[name])
    }
