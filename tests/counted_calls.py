"""Calls of functions that an action makes: a measure of its cost without a clock."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType


def calls_of(action: Callable[[], object], *, with_c: bool = False) -> int:
    """Calls of Python functions that an action makes in this thread; with those of C functions if `with_c`.

    The garbage of earlier tests is not collected meanwhile, since its finalizers would count.
    """
    calls = 0
    events = ("call", "c_call") if with_c else ("call",)

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in events

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls
