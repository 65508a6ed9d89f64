"""Try a call again when it fails as calls on a failing device do, and name the path in its error."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from engine.errors import SourceGoneError, SourceRefusedError, UnreadableError
from engine.files.unreadable import MEDIA_ERRORS

Answer = TypeVar("Answer")

_PAUSES = (0.0, 0.02, 0.1)
"""Seconds before each further try."""
_LONG = 2.0
"""Seconds after which a call is not tried once more: the device itself has tried for long."""
_PATIENCE = 64
"""Calls in a row that no further try helped, after which a call that fails is not tried again."""
_MEMORY = 60.0
"""Seconds after which calls that failed no longer count."""
_NAMED = (SourceGoneError, SourceRefusedError, UnreadableError)


class FailedCalls:
    """The calls in a row that failed at each try.

    Attributes:
        count: their number.
        at: time of the last one, on the monotonic clock.
    """

    def __init__(self) -> None:
        self.count = 0
        self.at = 0.0

    def forget(self) -> None:
        """Forget them: the next call that fails is tried again."""
        self.count = 0


FAILURES = FailedCalls()
"""Those of this process."""


def tried(call: Callable[[], Answer], path: str) -> Answer:
    """Return the result of a call that is tried again if it fails as `try_again` says. Raises OSError."""
    try:
        return call()
    except OSError as error:
        return try_again(error, call, path)


def try_again(error: OSError, call: Callable[[], Answer], path: str) -> Answer:
    """Return the result of a call that has failed with `error`, if it succeeds at one of a few more tries.

    Only errors of a failing device are worth a try. `path` is set as the file name of the error that is
    raised in the end, as the system may know only a descriptor.

    Raises OSError.
    """
    if isinstance(error, _NAMED):
        raise error
    if error.errno in MEDIA_ERRORS:
        started = monotonic()
        if started - FAILURES.at > _MEMORY:
            FAILURES.forget()
        for pause in _PAUSES if FAILURES.count < _PATIENCE else ():
            if monotonic() - started > _LONG:
                break
            sleep(pause)
            try:
                answer = call()
            except _NAMED:
                raise
            except OSError as another:
                error = another
                if error.errno not in MEDIA_ERRORS:
                    break
            else:
                FAILURES.forget()
                return answer
        else:
            FAILURES.count, FAILURES.at = FAILURES.count + 1, monotonic()
    error.filename = path
    raise error
