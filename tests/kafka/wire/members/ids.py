"""Ids that each server makes up: the same member has two, and one number."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from tests.kafka.wire.peers import Fields

MADE = re.compile(r"(.*)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[A-Za-z0-9_-]{22}", re.DOTALL)
"""An id that a server made up, for a classic member or for one of a consumer group."""
_NAMES = ("memberId", "leader")


class Each(NamedTuple):
    """A value of a request that is not the same for both servers."""

    theirs: str
    ours: str


def resolved(value: Any, side: int) -> Any:
    """A value of a request for the broker (0) or for kafkafs (1)."""
    if isinstance(value, Each):
        return value[side]
    if isinstance(value, dict):
        return {name: resolved(each, side) for name, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, side) for each in value]
    return value


class Ids:
    """The ids of both servers, with numbers in the order in which they were told."""

    def __init__(self) -> None:
        self._numbers: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def learn(self, theirs: Fields, ours: Fields) -> Each | str:
        """Note the id that two answers tell their client, and return it."""
        pair = Each(theirs.get("memberId") or "", ours.get("memberId") or "")
        if pair.theirs == pair.ours:
            return pair.ours
        known = [one in each for one, each in zip(pair, self._numbers, strict=True)]
        if known == [False, False] and all(MADE.fullmatch(one) for one in pair):
            number = f"#{len(self._numbers[0])}"
            for one, each in zip(pair, self._numbers, strict=True):
                each[one] = number
        return pair

    def shown(self, value: Any, side: int, name: str = "") -> Any:
        """An answer with numbers in place of ids; of one that is not known yet, what is not random."""
        if isinstance(value, dict):
            return {key: self.shown(each, side, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self.shown(each, side, name) for each in value]
        if name not in _NAMES or not isinstance(value, str):
            return value
        made = MADE.fullmatch(value)
        return self._numbers[side].get(value, f"{made[1] or ''}?" if made else value)
