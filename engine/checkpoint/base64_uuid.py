"""Kafka's UUIDs as text: the 16 bytes in base64 with the URL alphabet, without padding (22 characters)."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable

ZERO_UUID = "AAAAAAAAAAAAAAAAAAAAAA"
"""No UUID, or an unknown topic id."""
UNASSIGNED_DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The directory id of a partition whose log dir its broker has yet to choose."""
RESERVED_DIRECTORY_IDS = frozenset(
    base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
    for number in range(100)
)
"""Ids that no log dir has: lost, unassigned, migrating, and reserved ones."""

_UUID = re.compile(r"([A-Za-z0-9_-]{22})(?:==)?")


def canonical_uuid(text: str) -> str:
    """Return the canonical text of a UUID. Raises ValueError for text that is no UUID.

    >>> canonical_uuid("sgf5MsZgRTuEMv68ZXKJbQ==")
    'sgf5MsZgRTuEMv68ZXKJbQ'
    """
    match = _UUID.fullmatch(text)
    if match is None:
        raise ValueError(f"not a UUID in base64: {text[:40]!a}")
    number = base64.urlsafe_b64decode(match[1] + "==")
    return base64.urlsafe_b64encode(number).decode().rstrip("=")


def random_uuid(random_bytes: Callable[[int], bytes] = os.urandom) -> str:
    """Return a UUID that is not reserved and does not start like a command-line option."""
    while True:
        text = base64.urlsafe_b64encode(random_bytes(16)).decode().rstrip("=")
        if text not in RESERVED_DIRECTORY_IDS and not text.startswith("-"):
            return text
