"""What the log says of refused writes: a line for each client and API, and later how many there were."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from time import monotonic

from kafkafs.serve.request import Request

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN = 60
_MOST_CLIENTS = 1000


@dataclass(slots=True)
class _Refused:
    """Requests of a client that were refused since the last line about them; when that was."""

    number: int
    said: float


class RefusalLog:
    """Logs the first refused request of a client and API at once, and others once a minute with their number.

    The last _MOST_CLIENTS clients are remembered: by address and client id, whatever their connections. Used by one
    thread.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, str], _Refused] = OrderedDict()

    def add(self, api: str, request: Request) -> None:
        """Take a refused request."""
        key = (request.client_host, request.client_id, api)
        now, known = monotonic(), self._known.pop(key, None)
        if known is None:
            logger.warning("%s: %s refused: the server is read-only", request.client, api)
            known = _Refused(0, now)
        else:
            known.number += 1
            if now - known.said >= _SECONDS_BETWEEN:
                logger.warning(
                    "%s: %s refused, %d since the last line", request.client, api, known.number
                )
                known.number, known.said = 0, now
        self._known[key] = known
        if len(self._known) > _MOST_CLIENTS:
            self._known.popitem(last=False)
