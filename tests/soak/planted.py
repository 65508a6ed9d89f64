"""Targets with faults in them, to show that each kind is found."""

from __future__ import annotations

import ctypes
import os
import time
from random import Random

from tests.checkout import ROOT
from tests.soak import sanitized
from tests.soak.targets import Target

BAD = 0xFF
SOURCE = ROOT / "tests" / "soak" / "planted.c"


def make(random: Random) -> bytes:
    """One byte."""
    return bytes([random.randrange(250, 256)])


def _raise(data: bytes) -> None:
    if BAD in data:
        raise IndexError("planted")


def _end(data: bytes) -> None:
    if BAD in data:
        os._exit(9)


def _hang(data: bytes) -> None:
    while BAD in data:
        time.sleep(0.01)


def _overflow(data: bytes) -> None:
    library = ctypes.CDLL(str(sanitized.build(SOURCE)))
    library.read_planted(data, len(data), 0)


TARGETS = {
    "planted-error": lambda: Target(make, _raise),
    "planted-end": lambda: Target(make, _end),
    "planted-hang": lambda: Target(make, _hang),
    "planted-overflow": lambda: Target(make, _overflow),
}
"""What makes each target, by name."""
