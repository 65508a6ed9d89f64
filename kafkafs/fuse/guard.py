"""Wrapper of the request handlers that turns every exception into an errno.

pyfuse3 catches FUSEError only; any other exception in a handler ends the mount.
"""

from __future__ import annotations

import errno
import functools
import time
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, NoReturn, Protocol

import trio
from pyfuse3 import FUSEError

from kafkafs.fuse.request_errors import RequestErrors
from kafkafs.fuse.statistics import OperationStatistics


class Guarded(Protocol):
    """Protocol: the object with the handlers."""

    numbers: dict[str, OperationStatistics]
    errors: RequestErrors


def total(handler: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Wrap a handler: pass FUSEError on, answer any other error by the errno table, and count the request.

    The handler is a plain function, or returns a coroutine if it has to wait: most never do, and saving the coroutine
    is measurable.
    """
    name = handler.__name__
    clock = time.perf_counter_ns

    @functools.wraps(handler)
    async def run(self: Guarded, *args: Any) -> Any:  # noqa: ANN401
        start = clock()
        numbers = self.numbers[name]
        try:
            answer = handler(self, *args)
            if answer.__class__ is CoroutineType:
                return await answer
            return answer
        except FUSEError:
            numbers.errors += 1
            raise
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001  anything else would end the mount
            numbers.errors += 1
            raise FUSEError(self.errors.answer(error, name, args)) from None
        finally:
            numbers.add(clock() - start)

    return run


def refusing(name: str) -> Callable[..., Coroutine[Any, Any, NoReturn]]:
    """Return a handler that answers EROFS."""

    def handler(self: Guarded, *args: object) -> NoReturn:
        raise FUSEError(errno.EROFS)

    handler.__name__ = name
    handler.__doc__ = "Refused: the file system is read-only."
    return total(handler)
