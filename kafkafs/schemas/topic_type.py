"""Types of keys and values that carry no schema: what a mapping says about a topic, and what a topic's name says.

A type is the name of one, behind those of what wraps it: `int64`, `gzip/json`, `windowed/string`, `zstd`. What is only
wrapped is shown as in any other topic.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

WRAPPERS = ("gzip", "snappy", "lz4", "zstd", "windowed", "windowed-store", "session")
"""What wraps another type: the codecs, and the keys of Kafka Streams' windows."""
TYPES = (
    "boolean", "int16", "int32", "int64", "float", "double", "uuid", "string", "json", "cbor", "msgpack",
    "mirror-checkpoint", "mirror-heartbeat", "mirror-offset-sync",
)  # fmt: skip
"""What is wrapped by nothing."""

_NOT_CHARSETS = frozenset(
    {"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "utf_7"}
)
_UTF8 = "utf-8"
_BY_NAME = {
    "mirror-offset-sync": re.compile(r"mm2-offset-syncs\..+\.internal"),
    "mirror-checkpoint": re.compile(r".+\.checkpoints\.internal"),
    "mirror-heartbeat": re.compile(r"(.+\.)?heartbeats"),
}
"""The topics of MirrorMaker 2 with its default names; Kafka's DefaultReplicationPolicy."""
_GUESSED = "mirror-heartbeat"


class TopicType(NamedTuple):
    """Type of the keys or values of a topic.

    Attributes:
        wrappers: what wraps the type, the outermost first.
        name: the type; None for one that the bytes tell.
        charset: of a string, by Python's name.
        is_guess: whether the topic's name tells it, which others may have, too: what does not fit is shown as in any
            other topic.
    """

    wrappers: tuple[str, ...]
    name: str | None
    charset: str = _UTF8
    is_guess: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether the bytes have this type and no other one."""
        return not self.wrappers and not self.is_guess

    @classmethod
    def parse(cls, text: str, charset: str | None = None) -> TopicType:
        """Parse a type, and the charset of its text.

        Raises:
            ValueError: one of them is not known.

        >>> TopicType.parse("gzip/json")[:2], TopicType.parse("windowed")[:2]
        ((('gzip',), 'json'), (('windowed',), None))
        """
        names = text.split("/")
        last = None if names[-1] in WRAPPERS else names.pop()
        unknown = [each for each in names if each not in WRAPPERS]
        if unknown or last not in (None, *TYPES):
            raise ValueError(
                f"the type {text!r} is not known; types are {', '.join(TYPES)},"
                f" perhaps behind {'/, '.join(WRAPPERS)}/"
            )
        if charset is not None and last != "string":
            raise ValueError(f"the type {text!r} has no charset; string has")
        return cls(tuple(names), last, _UTF8 if charset is None else _charset(charset))


def type_by_name(topic: str) -> TopicType | None:
    """Return the type of the keys and values of a topic whose name tells it; None for any other."""
    if not topic.endswith((".internal", "heartbeats")):
        return None
    found = (name for name, pattern in _BY_NAME.items() if pattern.fullmatch(topic))
    name = next(found, None)
    return None if name is None else TopicType((), name, is_guess=name == _GUESSED)


def _charset(text: str) -> str:
    try:
        "".encode(text)  # raises LookupError for codecs of no text, too
        name = codecs.lookup(text).name
    except (LookupError, ValueError):
        name = "undefined"
    if name.replace("-", "_") in _NOT_CHARSETS:
        raise ValueError(f"the charset {text!r} is not known")
    return name
