"""The types and defaults of settings, the settings of brokers that stand for those of topics, and those that are secrets.

The facts are in `settings.txt`.
"""

from __future__ import annotations

import re

from engine.package_text import package_text

_NUMBERS = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
_PASSWORD = 9
UNKNOWN_TYPE = 0
_EMPTY = '""'


def _rows() -> list[list[str]]:
    lines = package_text(__package__, "settings.txt").splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def _defaults(owner: str) -> dict[str, str]:
    return {row[1]: row[3].replace(_EMPTY, "") for row in _SETTINGS if row[0] == owner}


def _of_brokers(owner: str) -> dict[str, str]:
    return {row[1]: row[4] for row in _SETTINGS if row[0] == owner and len(row) > 4}


_SETTINGS = _rows()
_TYPES = {row[1]: _NUMBERS[row[2]] for row in _SETTINGS}
TOPIC_DEFAULTS, GROUP_DEFAULTS = _defaults("topic"), _defaults("group")
"""What a topic or a group has if neither it nor the broker has a setting."""
BROKER_NAMES, GROUP_BROKER_NAMES = _of_brokers("topic"), _of_brokers("group")
"""Names of brokers' settings by the settings of topics or groups that they are the default of."""
IN_OTHER_UNITS = ("flush.ms", "retention.ms", "segment.jitter.ms", "segment.ms")
"""Settings of topics whose default is that of a broker's setting in hours, or of none."""
_SECRET = re.compile(r".*(password|secret|jaas\.config|\.key|certificate\.chain|certificates)")


def is_secret(name: str) -> bool:
    """Return whether a broker's setting may hold a password or a key."""
    return _SECRET.fullmatch(name) is not None


def setting_type(name: str) -> int:
    """Return the type of a setting as answers state it."""
    return _PASSWORD if is_secret(name) else _TYPES.get(name, UNKNOWN_TYPE)
