"""Random requests to both servers, one after the other, and what was different in their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from tests.kafka.wire.differences import differences
from tests.kafka.wire.directories import Both
from tests.kafka.wire.generator import Generated, Generator
from tests.kafka.wire.known import FETCH, Known

WEIGHTS = {
    1: 30, 2: 12, 3: 10, 9: 8, 10: 4, 12: 2, 13: 2, 14: 2, 15: 4, 16: 3, 17: 1, 18: 2, 23: 10, 29: 3, 32: 5, 35: 2, 36: 1,
    41: 1, 46: 1, 48: 3, 50: 2, 55: 2, 60: 3, 61: 3, 65: 2, 66: 3, 68: 2, 69: 2, 74: 2, 75: 4, 77: 1, 89: 1,
}  # fmt: skip
"""How often each API is asked: reading most of all."""
SESSIONS_SINCE, IDS_SINCE = 7, 13


class Difference(NamedTuple):
    """A request whose answers differ."""

    request: Generated
    what: list[str]

    def __str__(self) -> str:
        lines = [
            f"API {self.request.key}, version {self.request.version}: {self.request.fields!r:.3000}"
        ]
        return "\n  ".join(lines + self.what[:90])


class Session(NamedTuple):
    """A fetch session: its numbers at the broker and here, and the epoch of the next request."""

    broker: int
    ours: int
    epoch: int
    version: int


class Conversation:
    """Requests from one seed, with fetch sessions that live as long.

    Args:
        both: the servers.
        known: what their directory has.
        random: where requests come from.
    """

    def __init__(self, both: Both, known: Known, random: Random) -> None:
        self._both = both
        self._random = random
        self._generator = Generator(known, WEIGHTS)
        self._sessions: list[Session] = []
        self.asked: Counter[tuple[int, int]] = Counter()

    def run(self, count: int) -> Iterator[Difference]:
        """Ask so many requests and yield those with different answers."""
        for _ in range(count):
            request = self._generator.request(self._random)
            self.asked[request.key, request.version] += 1
            what = self._fetch(request) if request.key == FETCH else self._ask(request)
            if what:
                yield Difference(request, what)

    def _ask(self, request: Generated) -> list[str]:
        key, version, fields = request
        return differences(
            key,
            self._both.broker.ask(key, version, fields),
            self._both.ours.ask(key, version, fields),
        )

    def _fetch(self, request: Generated) -> list[str]:
        """Ask for records: without a session, in a new one, or in one of those that there are."""
        key, version, fields = request
        if version < SESSIONS_SINCE:
            return self._ask(request)
        random, session = self._random, None
        if self._sessions and random.random() < 0.6:
            session = random.choice(self._sessions)
            version = random.choice(
                _versions_like(session.version, is_other=random.random() < 0.05)
            )
            fields = self._generator.fields(key, version, random)
            epoch = random.choice((*(session.epoch,) * 10, 0, -1, session.epoch + 1, 1))
        else:
            epoch = random.choice((0, 0, 0, -1, -1, 1))
        ids = (
            (session.broker, session.ours)
            if session
            else random.choice(((0, 0), (0, 0), (12345, 12345)))
        )
        asked = [
            peer.ask(key, version, fields | {"sessionId": number, "sessionEpoch": epoch})
            for peer, number in zip((self._both.broker, self._both.ours), ids, strict=True)
        ]
        broker, ours = asked
        if broker.fields is None or ours.fields is None:
            return differences(key, broker, ours)
        numbers = broker.fields.pop("sessionId"), ours.fields.pop("sessionId")
        self._remember(session, Session(*numbers, epoch + 1 if epoch > 0 else 1, version))
        is_wrong = bool(numbers[0]) != bool(numbers[1]) or (
            session is not None
            and [each in ids for each in numbers] not in ([True] * 2, [False] * 2)
        )
        said = [f"sessions: {numbers} to {ids}, epoch {epoch}"] if is_wrong else []
        found = said + differences(key, broker, ours)
        return (
            [*found, f"version {version}, session {session}, epoch {epoch}, {fields}"]
            if found
            else []
        )

    def _remember(self, before: Session | None, after: Session) -> None:
        if before is not None:
            self._sessions.remove(before)
            if not after.broker and not after.ours:
                return
        if after.broker and after.ours:
            self._sessions.append(after)


def _versions_like(version: int, *, is_other: bool) -> Sequence[int]:
    """Versions for a session: with names, the same one, as a broker fails to write later fields in older versions."""
    has_ids = version >= IDS_SINCE
    if is_other:
        return range(SESSIONS_SINCE, IDS_SINCE) if has_ids else range(IDS_SINCE, 19)
    return range(IDS_SINCE, 19) if has_ids else [version]
