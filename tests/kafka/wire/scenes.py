"""Scenes: what members of a group do, once at each server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from tests.kafka.wire.member import Member

Scene: TypeAlias = Callable[[Member], None]


class Scenes:
    """Scenes in the order in which they are written."""

    def __init__(self) -> None:
        self._scenes: list[Scene] = []

    def __iter__(self) -> Iterator[Scene]:
        return iter(self._scenes)

    def scene(self, act: Scene) -> Scene:
        """Add a scene."""
        self._scenes.append(act)
        return act
