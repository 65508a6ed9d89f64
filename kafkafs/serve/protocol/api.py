"""An API of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from engine.topics.message.schema import Message


@dataclass(frozen=True, eq=False, slots=True)
class Api:
    """The request and the answer of an API, each in all its versions.

    Attributes:
        key: number of the API.
    """

    key: int
    request: Message
    response: Message
