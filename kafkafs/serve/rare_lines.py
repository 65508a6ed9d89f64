"""Lines of the log about what clients do again and again: the first at once, then one a minute with their number."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN = 60
_MOST_CAUSES = 1000


@dataclass(slots=True)
class _Repeated:
    """How often something was done since the last line about it; when that was."""

    number: int
    said: float


class RareLines:
    """Logs the first event of a cause at once, and others once a minute with their number.

    The last _MOST_CAUSES causes are remembered. Safe from several threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Hashable, _Repeated] = OrderedDict()

    def warn(self, cause: Hashable, sentence: str) -> None:
        """Take an event.

        Args:
            cause: what it has in common with others, such as a client's address and a kind of error.
            sentence: the line about it.
        """
        with self._lock:
            self._warn(cause, sentence)

    def failed(self, error: Exception, sentence: str) -> None:
        """Take a failure to read the source; those of one kind are one cause: a disk that is gone fails for all."""
        self.warn((type(error), getattr(error, "errno", None)), f"{sentence}: {error}")

    def _warn(self, cause: Hashable, sentence: str) -> None:
        now, known = monotonic(), self._known.pop(cause, None)
        if known is None:
            logger.warning("%s", sentence)
            known = _Repeated(0, now)
        else:
            known.number += 1
            if now - known.said >= _SECONDS_BETWEEN:
                logger.warning("%s, %d since the last line", sentence, known.number)
                known.number, known.said = 0, now
        self._known[cause] = known
        if len(self._known) > _MOST_CAUSES:
            self._known.popitem(last=False)
