"""Random requests of members of groups to both servers, in the same order, and what was different in their answers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple, Self

from tests.kafka.wire.conversation import Difference
from tests.kafka.wire.differences import UNKNOWN_MEMBER_ID, differences
from tests.kafka.wire.directories import Both
from tests.kafka.wire.embedded import with_sorted_assignments
from tests.kafka.wire.generator import Generated
from tests.kafka.wire.known import Known
from tests.kafka.wire.members.crowd import Client, Crowd, new_crowd
from tests.kafka.wire.members.ids import Each, Ids, resolved
from tests.kafka.wire.members.requests import (
    COMMIT,
    CONSUMER_BEAT,
    CONSUMER_DESCRIBE,
    DESCRIBE,
    JOIN,
    LEAVE,
    LIST,
    SYNC,
    Request,
    Requests,
)
from tests.kafka.wire.peers import Answer, Fields, Peer

GROUPS, _TOLD = 3, 60
QUICK_SECONDS, SETTLED_SECONDS, LATE_SECONDS = 0.03, 3.0, 10.0
"""Times for an answer that does not wait, for both groups to be in the same state, for the other server's answer."""


class Lines(NamedTuple):
    """A connection to each server."""

    broker: Peer
    ours: Peer

    def ask(self, request: Request) -> tuple[Answer, Answer]:
        """The answers to a request that waits for nobody."""
        self.send(request)
        return self.answers(request)

    def send(self, request: Request) -> None:
        """Send a request to both."""
        for side, peer in enumerate(self):
            peer.send(request.key, request.version, resolved(request.fields, side))

    def answers(self, request: Request) -> tuple[Answer, Answer]:
        """The answers to the request that was sent last."""
        theirs, ours = (peer.answer(request.key, request.version) for peer in self)
        return theirs, ours

    def answered(self, seconds: float) -> list[bool]:
        """Which server has answered within some time."""
        end = time.monotonic() + seconds
        while True:
            found = [peer.is_answered(0.0) for peer in self]
            if all(found) or time.monotonic() >= end:
                return found
            time.sleep(0.001)


class MemberConversation:
    """Sequences of a few groups from one seed.

    Args:
        both: the servers.
        known: what their directory has.
        random: where requests come from.
        name: begins the ids of the groups.

    Attributes:
        asked: requests by API and version.
        parted: groups in which the order of a broker's hash map over ids that it made up decided.
    """

    def __init__(self, both: Both, known: Known, random: Random, name: str) -> None:
        self._control = Lines(both.broker, both.ours)
        self._random = random
        self._name = name
        self._requests = Requests(known, random)
        self._ids = Ids()
        self._crowds: list[Crowd] = []
        self._made = 0
        self._stack = ExitStack()
        self._lines: dict[Client, Lines] = {}
        self._waiting: dict[Client, tuple[Crowd, Request]] = {}
        self.asked: Counter[tuple[int, int]] = Counter()
        self.parted = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, count: int) -> Iterator[Difference]:
        """Ask so many requests and yield those with different answers; a group ends with its first."""
        for _ in range(count):
            self._renew()
            crowd = self._random.choice(self._crowds)
            others = [each for each in self._crowds if each is not crowd]
            request = self._requests.next(crowd, others)
            self.asked[request.key, request.version] += 1
            yield from self._step(crowd, request)
        for crowd in list(self._crowds):
            yield from self._end(crowd)

    def _renew(self) -> None:
        for crowd in [each for each in self._crowds if each.is_old]:
            self._forget(crowd)
        while len(self._crowds) < GROUPS:
            self._crowds.append(new_crowd(f"{self._name} {self._made}", self._random))
            self._made += 1

    def _forget(self, crowd: Crowd) -> None:
        self._crowds.remove(crowd)
        for client in crowd.clients:
            if self._waiting.pop(client, None):
                for peer in self._lines.pop(client):
                    peer.close()

    def _step(self, crowd: Crowd, request: Request) -> Iterator[Difference]:
        try:
            found = self._different(crowd, request)
        except _Parted:
            self._forget(crowd)
            self.parted += 1
            return
        if found:
            parted = [each for each in self._crowds if self._is_parted(each)]
            self.parted += len(parted)
            for each in parted or list(self._crowds):
                self._forget(each)
            if not parted:
                found += ["after:", *crowd.told[-_TOLD:]]
                yield Difference(Generated(request.key, request.version, request.fields), found)

    def _different(self, crowd: Crowd, request: Request) -> list[str]:
        if request.key in (JOIN, SYNC) and request.client is not None:
            found = self._begin(crowd, request, request.client)
        else:
            found = self._compared(crowd, request, *self._control.ask(request))
        if found and request.key in (DESCRIBE, CONSUMER_DESCRIBE, LIST):
            self._write()
            found = self._compared(crowd, request, *self._control.ask(request))
        if not found and self._has_to_settle(crowd, request):
            found = self._unsettled(crowd)
        for client, (other, sent) in list(self._waiting.items()):
            if not found and other is crowd:
                found = self._late(client, crowd, sent)
        return found

    def _has_to_settle(self, crowd: Crowd, request: Request) -> bool:
        """Whether something may go on after an answer: patterns are looked up, others join, a generation ends."""
        return (
            (request.key == LEAVE)
            or (request.key in (CONSUMER_BEAT, JOIN) and crowd.has_patterns)
            or (request.client is not None and request.client.waits_as is not None)
        )

    # Requests that may wait for others

    def _begin(self, crowd: Crowd, request: Request, client: Client) -> list[str]:
        if client not in self._lines:
            pairs = (Peer(f"{each.host}:{each.port}") for each in self._control)
            self._lines[client] = Lines(*map(self._stack.enter_context, pairs))
        lines = self._lines[client]
        lines.send(request)
        answered = lines.answered(QUICK_SECONDS)
        if any(answered):
            return self._taken(client, crowd, request)
        client.waits_as = request.fields["memberId"]
        self._waiting[client] = crowd, request
        return []

    def _late(self, client: Client, crowd: Crowd, request: Request) -> list[str]:
        """Take the answers of a request that waited, if they have come."""
        if not any(self._lines[client].answered(0.0)):
            return []
        client.waits_as = None
        del self._waiting[client]
        return self._taken(client, crowd, request)

    def _taken(self, client: Client, crowd: Crowd, request: Request) -> list[str]:
        answered = self._lines[client].answered(LATE_SECONDS)
        if not all(answered):
            line = self._lines.pop(client)[answered.index(True)]
            may_differ = request.key == SYNC and crowd.has_unknown_leader
            if may_differ or (crowd.was_consumer and self._consumer_state(crowd) is None):
                raise _Parted  # one has another leader, which need not wait
            told = line.answer(request.key, request.version).fields or {}
            if answered[1] and request.key == SYNC and told["errorCode"] == UNKNOWN_MEMBER_ID:
                return []  # it left or was dropped meanwhile: a broker never answers
            return [
                f"only {'the broker' if answered[0] else 'we'} answered {request.fields}: {told}"
            ]
        return self._compared(crowd, request, *self._lines[client].answers(request))

    def _end(self, crowd: Crowd) -> Iterator[Difference]:
        """Let all members leave, so that those who wait are answered."""
        known = [each.member_id for each in crowd.clients if each.member_id]
        members = [
            {"memberId": name, "groupInstanceId": None, "reason": None}
            for name in (*known, *crowd.lost)
        ]
        if members:
            fields = {"groupId": crowd.name, "members": members}
            yield from self._step(crowd, Request(LEAVE, 5, fields))
        if crowd in self._crowds:
            self._forget(crowd)

    # Comparing

    def _compared(self, crowd: Crowd, request: Request, theirs: Answer, ours: Answer) -> list[str]:
        if theirs.fields is None or ours.fields is None:
            return differences(request.key, theirs, ours)
        if request.key == CONSUMER_BEAT and not ours.fields["errorCode"]:
            crowd.was_consumer, crowd.leader = True, ""
        member_id = self._ids.learn(theirs.fields, ours.fields)
        crowd.has_made_ids |= isinstance(member_id, Each)
        answer = dict(ours.fields)
        shown = [
            Answer(self._shown(request.key, each.fields, side), each.left)
            for side, each in enumerate((theirs, ours))
        ]
        if request.key == JOIN:
            _compare_leaders(crowd, *(each.fields for each in shown))
        found = differences(request.key, *shown)
        if request.key not in (DESCRIBE, CONSUMER_DESCRIBE, LIST):
            crowd.told.append(
                f"{request.key} v{request.version} {request.fields} -> {shown[1].fields}"
            )
        if not found:
            self._requests.learn(crowd, request, answer, member_id)
            if (
                request.key == JOIN
                and crowd.was_consumer
                and answer["errorCode"] == UNKNOWN_MEMBER_ID
            ):
                self._end_forgotten(crowd)
        return found

    def _end_forgotten(self, crowd: Crowd) -> None:
        """Use a group no more that a broker has forgotten: an empty consumer group that a classic member asked to join."""
        if self._consumer_state(crowd) == "Empty":
            raise _Parted

    def _consumer_state(self, crowd: Crowd) -> str | None:
        """The state that kafkafs tells of a consumer group; None for a classic one."""
        _, ours = self._control.ask(_descriptions(crowd)[1])
        group: Fields = (ours.fields or {})["groups"][0]
        return None if group["errorCode"] else str(group["groupState"])

    def _shown(self, key: int, fields: Any, side: int) -> Any:
        shown = with_sorted_assignments(self._ids.shown(fields, side))
        if key == LIST:
            names = {each.name for each in self._crowds}
            shown["groups"] = [each for each in shown["groups"] if each["groupId"] in names]
        return shown

    def _unsettled(self, crowd: Crowd) -> list[str]:
        """What is different in a group after some time."""
        end = time.monotonic() + SETTLED_SECONDS
        while True:
            found = self._described(crowd)
            if not found or time.monotonic() > end:
                return found
            self._write()
            time.sleep(0.01)

    def _write(self) -> None:
        """Commit offsets of groups in each partition of a broker: what it did without a record is told with the next."""
        topics = [{"name": "orders", "partitions": [{"partitionIndex": 0, "committedOffset": 0}]}]
        for name in ("written 0", "written 1"):
            fields = {"groupId": name, "generationIdOrMemberEpoch": -1, "memberId": ""}
            self._control.ask(Request(COMMIT, 9, fields | {"topics": topics}))

    def _described(self, crowd: Crowd, *, with_places: bool = True) -> list[str]:
        found = []
        for request in _descriptions(crowd):
            shown = [
                Answer(self._shown(request.key, each.fields, side), each.left)
                for side, each in enumerate(self._control.ask(request))
            ]
            if not with_places:
                for each in shown:
                    _drop_places(each.fields)
            found += differences(request.key, *shown)
        return found

    def _is_parted(self, crowd: Crowd) -> bool:
        """Whether only the order of a hash map over ids that servers made up explains a difference."""
        return (
            crowd.was_consumer
            and crowd.has_made_ids
            and bool(self._described(crowd))
            and not self._described(crowd, with_places=False)
        )


def _descriptions(crowd: Crowd) -> tuple[Request, Request]:
    return (
        Request(DESCRIBE, 6, {"groups": [crowd.name]}),
        Request(CONSUMER_DESCRIBE, 1, {"groupIds": [crowd.name]}),
    )


def _compare_leaders(crowd: Crowd, theirs: Any, ours: Any) -> None:
    """Allow another leader where the one before is gone: then a broker takes the first of a hash map."""
    leaders = theirs["leader"], ours["leader"]
    may_differ = crowd.leader not in leaders and (crowd.leader or crowd.was_consumer)
    if leaders[0] != leaders[1] and all(leaders) and may_differ:
        raise _Parted
    if leaders[0] == leaders[1] and leaders[0]:
        crowd.leader, crowd.has_unknown_leader = leaders[0], leaders[0].endswith("?")


class _Parted(Exception):
    """A group has different leaders, both of which are right."""


def _drop_places(fields: Fields | None) -> None:
    """Leave out who has what."""
    for group in (fields or {}).get("groups", ()):
        group["groupState"] = ""
        for member in group["members"]:
            for name in ("assignment", "targetAssignment", "memberEpoch", "memberAssignment"):
                member.pop(name, None)
