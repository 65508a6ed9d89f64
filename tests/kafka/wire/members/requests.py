"""Random requests of the clients of a group: mostly what a client does next, now and then something odd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

from kafkafs.serve.protocol.api import Api
from tests.kafka.wire.embedded import assigned, assignment, subscription
from tests.kafka.wire.known import Known
from tests.kafka.wire.members.crowd import TOPICS, Client, Crowd, Next
from tests.kafka.wire.members.ids import Each
from tests.kafka.wire.peers import Fields

COMMIT, OFFSETS, FIND, JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST = 8, 9, 10, 11, 12, 13, 14, 15, 16
CONSUMER_BEAT, CONSUMER_DESCRIBE = 68, 69
ZERO_ID, OTHER_ID = "A" * 22, "AAAAAAAAAAAAAAAAAAAAAQ"
STRATEGIES = (
    ["range"], ["range"], ["range", "sticky"], ["sticky", "range"], ["roundrobin", "range"], ["cooperative"], [],
)  # fmt: skip
PATTERNS = (
    "ord.*", "ord.*", "orders|codec-.*", "no-such-.*", "", "(", "(?=x)y", "a{1001}", "[[:alpha:]]+", r"\Qorders\E",
    "(?i)ORDERS", "^orders$", "(?P<name>o)rders", r"\pL+", "*", "o)", "[z-a]",
)  # fmt: skip
METADATA = ("", "", "mine", None, "größe", "x" * 4096, "x" * 4097)
_T = TypeVar("_T")


class Request(NamedTuple):
    """A request of a client, and whether the client goes by its answer."""

    key: int
    version: int
    fields: Fields
    client: Client | None = None
    counts: bool = True


class Requests:
    """Makes requests.

    Args:
        known: the directory.
        random: where choices come from.
    """

    def __init__(self, known: Known, random: Random) -> None:
        self._topics = known.topics
        self._names = {topic_id: name for name, topic_id in known.topics.items()}
        self._random = random

    def next(self, crowd: Crowd, others: Sequence[Crowd]) -> Request:
        """A request of a client of a group that does not wait for an answer."""
        random = self._random
        idle = crowd.idle
        if not idle or (crowd.lost and self._is(0.3)):
            return self._leave(crowd, None)
        client = random.choice(idle)
        if self._is(0.2):
            made: Callable[[], Request] = random.choice(
                (
                    lambda: self._describe(crowd, others, DESCRIBE),
                    lambda: self._describe(crowd, others, CONSUMER_DESCRIBE),
                    lambda: self._list(),
                    lambda: self._find(crowd),
                    lambda: self._offsets(crowd, others, client),
                )
            )
            return made()
        if self._is(0.25):
            return self._odd(crowd, client)
        return self._expected(crowd, client)

    def _expected(self, crowd: Crowd, client: Client) -> Request:
        """What a well-behaved client does."""
        if client.is_consumer:
            if client.next is Next.JOIN:
                return self._enter(crowd, client)
            return self._weighted(
                (12, lambda: self._live(crowd, client)),
                (4, lambda: self._commit(crowd, client)),
                (2, lambda: self._offsets(crowd, (), client)),
                (1, lambda: self._go(crowd, client)),
            )
        if client.next is Next.JOIN:
            return self._join(crowd, client)
        if client.next is Next.SYNC:
            return self._sync(crowd, client)
        return self._weighted(
            (6, lambda: self._beat(crowd, client)),
            (3, lambda: self._commit(crowd, client)),
            (1, lambda: self._leave(crowd, client)),
            (1, lambda: self._join(crowd, client)),
            (1, lambda: self._sync(crowd, client)),
        )

    def _odd(self, crowd: Crowd, client: Client) -> Request:
        """Something that a client does not do in this state, or never."""
        return self._weighted(
            (4, lambda: self._join(crowd, client, is_odd=True)),
            (3, lambda: self._sync(crowd, client, is_odd=True)),
            (3, lambda: self._beat(crowd, client, is_odd=True)),
            (2, lambda: self._leave(crowd, client)),
            (4, lambda: self._commit(crowd, client, is_odd=True)),
            (2, lambda: self._offsets(crowd, (), client)),
            (5, lambda: self._live(crowd, client, is_odd=True)),
            (2, lambda: self._enter(crowd, client, is_odd=True)),
            (2, lambda: self._go(crowd, client)),
        )

    def _weighted(self, *choices: tuple[int, Callable[[], Request]]) -> Request:
        weights = [weight for weight, _ in choices]
        return self._random.choices([made for _, made in choices], weights)[0]()

    # Values

    def _is(self, share: float) -> bool:
        return self._random.random() < share

    def _odd_or(self, value: _T, is_odd: bool, *others: _T) -> _T:
        return self._random.choice(others) if is_odd and self._is(0.35) else value

    def _version(self, key: int, least: int = 0) -> int:
        """Any version of an API, mostly one that has the fields that are needed."""
        request = Api(key).request
        first = request.first_version if self._is(0.1) else max(least, request.first_version)
        return self._random.randint(first, request.last_version)

    def _any_id(self, crowd: Crowd) -> Each | str:
        """Some id, but of no member that waits."""
        known = ("ghost", *(client.member_id for client in crowd.clients), *crowd.lost)
        return self._random.choice(("", *(each for each in known if each not in crowd.waiting)))

    def _instance(self, client: Client, is_odd: bool) -> str | None:
        return self._odd_or(client.instance, is_odd, None, "instance-0", "instance-9")

    # The classic protocol

    def _join(self, crowd: Crowd, client: Client, *, is_odd: bool = False) -> Request:
        random = self._random
        member_id = self._odd_or(client.member_id, is_odd, "", self._any_id(crowd))
        version = self._version(JOIN, 5 if client.instance else 0)
        names = self._odd_or(random.choice(STRATEGIES[:5]), is_odd, *STRATEGIES)
        kind = self._odd_or(crowd.protocol_type, is_odd, "consumer", "connect", "")
        fields = {
            "groupId": self._odd_or(crowd.name, is_odd and self._is(0.2), ""),
            "sessionTimeoutMs": self._odd_or(
                random.choice((30_000, 30_000, 6_000, 1_800_000)), is_odd, 5_999, 1_800_001, -1
            ),
            "rebalanceTimeoutMs": random.choice((60_000, 60_000, 2**31 - 1)),
            "memberId": member_id, "groupInstanceId": self._instance(client, is_odd), "protocolType": kind,
            "protocols": [{"name": name, "metadata": self._metadata(kind, client)} for name in names],
            "reason": None,
        }  # fmt: skip
        return Request(JOIN, version, fields, client, member_id in ("", client.member_id))

    def _metadata(self, kind: str, client: Client) -> bytes:
        """A subscription that can be read: a broker does not answer others."""
        if kind != "consumer":
            return self._random.choice((b"", b"x", b"\0\1"))
        return subscription(
            client.topics,
            client.owned,
            self._random.choice((None, None, "rack")),
            self._random.randint(0, 3),
        )

    def _sync(self, crowd: Crowd, client: Client, *, is_odd: bool = False) -> Request:
        shares = [
            {"memberId": each.member_id, "assignment": self._assignment(crowd, number)}
            for number, each in enumerate(crowd.clients)
            if each.member_id
        ]
        fields = {
            "groupId": crowd.name,
            "generationId": self._odd_or(client.epoch, is_odd, client.epoch + 1, client.epoch - 1, -1),
            "memberId": self._odd_or(client.member_id, is_odd, self._any_id(crowd)),
            "groupInstanceId": self._instance(client, is_odd),
            "protocolType": self._odd_or(crowd.protocol_type, is_odd, None, "connect", "consumer"),
            "protocolName": self._odd_or(client.protocol, is_odd, None, "sticky", "range"),
            "assignments": shares if self._is(0.9) else shares[1:],
        }  # fmt: skip
        version = self._version(SYNC, 3 if client.instance else 0)
        return Request(SYNC, version, fields, client, fields["memberId"] == client.member_id)

    def _assignment(self, crowd: Crowd, number: int) -> bytes:
        if crowd.protocol_type != "consumer":
            return b"part %d" % number
        topic = self._random.choice(("orders", "orders", "gone"))
        return b"" if self._is(0.05) else assignment({topic: [number]} if number < 3 else {})

    def _beat(self, crowd: Crowd, client: Client, *, is_odd: bool = False) -> Request:
        fields = {
            "groupId": self._odd_or(crowd.name, is_odd and self._is(0.1), "", f"{crowd.name} unknown"),
            "generationId": self._odd_or(client.epoch, is_odd, client.epoch + 1, client.epoch - 1, -1),
            "memberId": self._odd_or(client.member_id, is_odd, self._any_id(crowd)),
            "groupInstanceId": self._instance(client, is_odd),
        }  # fmt: skip
        counts = not is_odd
        return Request(
            BEAT, self._version(BEAT, 3 if client.instance else 0), fields, client, counts
        )

    def _leave(self, crowd: Crowd, client: Client | None) -> Request:
        random = self._random
        members = []
        if client is not None and self._is(0.8):
            members.append((client.member_id, client.instance))
        members.extend((lost, None) for lost in crowd.lost)
        while not members or self._is(0.3):
            other = random.choice(crowd.clients)
            members.append(
                random.choice(
                    (
                        (other.member_id, other.instance),
                        ("", other.instance),
                        (other.member_id, None),
                        ("ghost", None),
                        ("", "instance-9"),
                    )
                )
            )
        random.shuffle(members)
        crowd.lost.clear()
        version = self._version(LEAVE, 3)
        fields = {
            "groupId": crowd.name, "memberId": members[0][0],
            "members": [{"memberId": name, "groupInstanceId": instance, "reason": None} for name, instance in members],
        }  # fmt: skip
        return Request(LEAVE, version, fields, client)

    # Offsets

    def _commit(self, crowd: Crowd, client: Client, *, is_odd: bool = False) -> Request:
        random = self._random
        version = self._version(COMMIT, 9 if client.is_consumer else 7 if client.instance else 0)
        is_simple = is_odd and self._is(0.3)
        fields = {
            "groupId": crowd.name,
            "generationIdOrMemberEpoch": -1 if is_simple else
            self._odd_or(client.epoch, is_odd, client.epoch + 1, client.epoch - 1, 0, -1),
            "memberId": "" if is_simple else self._odd_or(client.member_id, is_odd, self._any_id(crowd)),
            "groupInstanceId": None if is_simple else self._instance(client, is_odd),
            "topics": [self._committed(version) for _ in range(random.choice((1, 1, 1, 2, 0)))],
        }  # fmt: skip
        return Request(COMMIT, version, fields)

    def _committed(self, version: int) -> Fields:
        random = self._random
        name = random.choice((*TOPICS, "orders", "orders", "no-such-topic", ""))
        topic_id = self._topics.get(name, random.choice((ZERO_ID, OTHER_ID)))
        partitions = [
            {
                "partitionIndex": random.choice((0, 0, 1, 2, 99, -1)),
                "committedOffset": random.choice((0, 7, 60, -1)),
                "committedLeaderEpoch": random.choice((-1, 0, 5)),
                "committedMetadata": random.choice(METADATA),
            }
            for _ in range(random.choice((1, 1, 2)))
        ]
        return {"name": name if version < 10 else "", "topicId": topic_id, "partitions": partitions}

    def _offsets(self, crowd: Crowd, others: Sequence[Crowd], client: Client) -> Request:
        random = self._random
        version = self._version(OFFSETS)
        groups = [
            {"groupId": each.name, "topics": self._wanted(has_ids=True)} | self._asking(each)
            for each in (
                crowd,
                *random.sample(list(others), min(len(others), random.randint(0, 2))),
            )
        ]
        fields = {
            "groupId": crowd.name, "topics": self._wanted(), "groups": groups,
            "requireStable": self._is(0.3),
        }  # fmt: skip
        return Request(OFFSETS, version, fields)

    def _wanted(self, *, has_ids: bool = False) -> list[Fields] | None:
        random = self._random
        if self._is(0.3):
            return None
        names = random.sample(("orders", "codec-zstd", "no-such-topic"), random.randint(0, 2))
        wanted: list[Fields] = [
            {"name": name, "partitionIndexes": random.sample((0, 1, 2, 99), random.randint(0, 3))}
            for name in names
        ]
        if not has_ids:
            return wanted
        return [each | {"topicId": self._topics.get(each["name"], OTHER_ID)} for each in wanted]

    def _asking(self, crowd: Crowd) -> Fields:
        """The member that asks; without an id there is no epoch, where a broker fails."""
        client = self._random.choice(crowd.clients)
        if self._is(0.4):
            return {"memberId": None, "memberEpoch": -1}
        epoch = self._odd_or(client.epoch, True, client.epoch + 1, client.epoch - 1, -1)
        return {"memberId": self._odd_or(client.member_id, True, "ghost", ""), "memberEpoch": epoch}

    # The consumer protocol

    def _enter(self, crowd: Crowd, client: Client, *, is_odd: bool = False) -> Request:
        """The first heartbeat of a member."""
        client.is_consumer = client.is_consumer or (is_odd and crowd.is_mixed)
        names, pattern = self._subscription(crowd, client)
        if self._is(0.1) and not client.member_id:
            client.own_id = f"{self._random.choice('abcdefgh')}{client.own_id[1:]}"
        version = self._version(CONSUMER_BEAT, 1 if pattern is not None else 0)
        own = client.member_id or client.own_id
        may_be_made = version == 0 and crowd.is_mixed and self._is(0.5)
        fields = {
            "groupId": self._odd_or(crowd.name, is_odd and self._is(0.1), ""),
            "memberId": self._odd_or("" if may_be_made else own, is_odd, "ghost" if version else own),
            "memberEpoch": 0,
            "instanceId": self._odd_or(client.instance, is_odd, None, ""),
            "rackId": self._odd_or(None, is_odd, "rack", ""),
            "rebalanceTimeoutMs": self._odd_or(60_000, is_odd, 2**31 - 1, -1),
            "subscribedTopicNames": names, "subscribedTopicRegex": pattern,
            "serverAssignor": self._odd_or(crowd.assignor, is_odd and not crowd.is_mixed, "range", "none", ""),
            "topicPartitions": self._odd_or([], is_odd, None, [{"topicId": OTHER_ID, "partitions": [0]}]),
        }  # fmt: skip
        counts = fields["memberId"] in ("", own)
        return Request(CONSUMER_BEAT, version, fields, client, counts)

    def _subscription(self, crowd: Crowd, client: Client) -> tuple[list[str] | None, str | None]:
        random = self._random
        if self._is(0.25):
            crowd.has_patterns = True
            return random.choice((None, [], client.topics)), random.choice(PATTERNS)
        if self._is(0.15):
            client.topics = random.sample((*TOPICS, "no-such-topic"), random.randint(0, 3))
        return client.topics, random.choice((None, None, None, ""))

    def _live(self, crowd: Crowd, client: Client, *, is_odd: bool = False) -> Request:
        """A heartbeat that states what has changed, or everything."""
        names: list[str] | None = None
        pattern: str | None = None
        is_whole = self._is(0.15)
        if is_whole or self._is(0.1):
            names, pattern = self._subscription(crowd, client)
        version = self._version(CONSUMER_BEAT, 1 if pattern is not None else 0)
        fields = {
            "groupId": crowd.name,
            "memberId": self._odd_or(client.member_id or client.own_id, is_odd, self._any_id(crowd)),
            "memberEpoch": self._odd_or(client.epoch, is_odd, client.epoch + 1, client.epoch - 1, -3, 9),
            "instanceId": self._odd_or(client.instance, is_odd, None, "instance-0", "instance-9"),
            "rackId": self._odd_or(None, is_odd, "rack", "other"),
            "rebalanceTimeoutMs": 60_000 if is_whole else -1,
            "subscribedTopicNames": names, "subscribedTopicRegex": pattern,
            "serverAssignor": self._odd_or(None, is_odd and not crowd.is_mixed, "range", "uniform", "none"),
            "topicPartitions": self._owned(client, is_whole),
        }  # fmt: skip
        if not fields["memberEpoch"]:
            return self._enter(crowd, client)
        return Request(CONSUMER_BEAT, version, fields, client, counts=not is_odd)

    def _owned(self, client: Client, is_whole: bool) -> list[Fields] | None:
        random = self._random
        if not is_whole and self._is(0.3):
            return None
        if self._is(0.05):
            return random.choice(
                ([], [{"topicId": self._topics["orders"], "partitions": [0, 1, 2]}])
            )
        return [
            {"topicId": self._topics[name], "partitions": numbers}
            for name, numbers in client.owned.items()
        ]

    def _go(self, crowd: Crowd, client: Client) -> Request:
        """A heartbeat of a member that leaves, for good or for now."""
        is_static = client.instance is not None
        fields: dict[str, Any] = {
            "groupId": crowd.name, "memberId": client.member_id or client.own_id,
            "memberEpoch": -2 if is_static and self._is(0.6) else self._odd_or(-1, True, -1, -1, -2),
            "instanceId": self._odd_or(client.instance, self._is(0.2), None, "instance-0"),
        }  # fmt: skip
        return Request(CONSUMER_BEAT, self._version(CONSUMER_BEAT), fields, client)

    # Descriptions

    def _describe(self, crowd: Crowd, others: Sequence[Crowd], key: int) -> Request:
        names = [crowd.name, *(each.name for each in others if self._is(0.3))]
        if self._is(0.1):
            names.append(self._random.choice((f"{crowd.name} unknown", "")))
        field = "groups" if key == DESCRIBE else "groupIds"
        fields = {field: names, "includeAuthorizedOperations": self._is(0.3)}
        return Request(key, self._version(key), fields)

    def _list(self) -> Request:
        random = self._random
        states = ("Stable", "empty", "Dead", "PreparingRebalance", "Reconciling", "assigning", "no")
        kinds = ("classic", "consumer", "Consumer", "share", "no")
        fields = {
            "statesFilter": random.sample(states, random.choice((0, 0, 1, 2))),
            "typesFilter": random.sample(kinds, random.choice((0, 0, 1, 2))),
        }
        return Request(LIST, self._version(LIST), fields)

    def _find(self, crowd: Crowd) -> Request:
        kind = self._random.choice((0, 0, 1, 2, -1))
        names = [crowd.name, *(["", "a:b:0"] if self._is(0.2) else [])]
        fields = {"key": crowd.name, "keyType": kind, "coordinatorKeys": names}
        return Request(FIND, self._version(FIND), fields)

    # Answers

    def learn(self, crowd: Crowd, request: Request, answer: Fields, member_id: Each | str) -> None:
        """Let the client go by an answer, which is the same of both servers but for ids."""
        client, code = request.client, answer.get("errorCode", 0)
        if request.key == LEAVE:
            self._left(crowd, request, answer)
        if client is None:
            return
        if not request.counts:
            is_free = bool(member_id) and all(member_id != each.member_id for each in crowd.clients)
            if code in (0, 79) and request.key in (JOIN, CONSUMER_BEAT) and is_free:
                crowd.lost.append(member_id)
            return
        if request.key == JOIN:
            _joined(crowd, client, answer, member_id)
        elif request.key == CONSUMER_BEAT:
            self._beaten(crowd, client, request, answer, member_id)
        elif request.key == SYNC and not code:
            client.owned = _assigned(answer)
            client.next = Next.BEAT
        elif request.key in (SYNC, BEAT) and code:
            client.next = Next.JOIN
            if code == 25:
                client.member_id = ""

    def _beaten(
        self,
        crowd: Crowd,
        client: Client,
        request: Request,
        answer: Fields,
        member_id: Each | str,
    ) -> None:
        epoch, code = request.fields["memberEpoch"], answer["errorCode"]
        if code in (25, 69, 110, 111) or (not code and epoch < 0):
            client.next, client.epoch, client.owned = Next.JOIN, 0, {}
            if code != 110:
                client.member_id = ""
        elif not code:
            if client.member_id and client.member_id != member_id and client.instance is None:
                crowd.lost.append(client.member_id)
            client.next, client.epoch, client.member_id = (
                Next.BEAT,
                answer["memberEpoch"],
                member_id,
            )
            client.is_consumer, crowd.was_consumer = True, True
            if answer["assignment"] is not None:
                client.owned = {
                    self._names[each["topicId"]]: each["partitions"]
                    for each in answer["assignment"]["topicPartitions"]
                }

    @staticmethod
    def _left(crowd: Crowd, request: Request, answer: Fields) -> None:
        if request.version < 3:
            gone = [(request.fields["memberId"], None)] if not answer["errorCode"] else []
        else:
            gone = [
                (each["memberId"], each["groupInstanceId"])
                for each, told in zip(request.fields["members"], answer["members"], strict=False)
                if not told["errorCode"]
            ]
        for member_id, instance in gone:
            for client in crowd.clients:
                is_named = member_id and member_id == client.member_id
                if is_named or (instance is not None and instance == client.instance):
                    client.member_id, client.next, client.epoch, client.owned = "", Next.JOIN, 0, {}


def _joined(crowd: Crowd, client: Client, answer: Fields, member_id: Each | str) -> None:
    code = answer["errorCode"]
    if code in (0, 79):
        if client.member_id and client.member_id != member_id and client.instance is None:
            crowd.lost.append(client.member_id)
        client.member_id, client.is_consumer = member_id, False
    if not code:
        client.next, client.epoch = Next.SYNC, answer["generationId"]
        client.protocol = answer["protocolName"]
    elif code in (25, 82):
        client.member_id = ""


def _assigned(answer: Fields) -> dict[str, list[int]]:
    return {
        topic: numbers
        for topic, numbers in assigned(answer["assignment"]).items()
        if topic in TOPICS
    }
