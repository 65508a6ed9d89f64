"""Facts of a running server, as a mount has them in `.kafkafs/`: pid, status, statistics, problems, log."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.verdict.source_losses import source_problems
from kafkafs.api.source_logs import SourceLogs
from kafkafs.decode.shown_text import pretty_json
from kafkafs.process_facts import process_facts
from kafkafs.serve.control.counters import Counters
from kafkafs.serve.handlers.fetch import Fetches

MOST_CLIENTS = 20


class ServerStatus:
    """What the operator can ask for.

    Args:
        logs: the open source.
        counters: those of the connections.
        fetches: the handler of Fetch, which counts answers with damage.
        facts: what the operator chose, for the status.
        log_text: returns the last lines of the log.
        busiest: returns facts of the open connections that were sent the most bytes.
    """

    def __init__(
        self,
        logs: SourceLogs,
        counters: Counters,
        fetches: Fetches,
        facts: Mapping[str, Any],
        log_text: Callable[[], str],
        busiest: Callable[[int], Sequence[Mapping[str, Any]]],
    ) -> None:
        self._logs = logs
        self._counters = counters
        self._fetches = fetches
        self._facts = facts
        self._log_text = log_text
        self._busiest = busiest
        self._started = time.monotonic()

    def makers(self) -> Mapping[str, Callable[[], bytes]]:
        """Return the facts by name, each made when it is asked for."""
        return {
            "pid": lambda: b"%d\n" % os.getpid(),
            "status": self._status,
            "statistics": lambda: pretty_json(
                self._counters.facts() | {"damageAnswers": self._fetches.damage_answers}
            ),
            "problems": self._problems,
            "log": lambda: self._log_text().encode("utf-8", "backslashreplace"),
        }

    def _status(self) -> bytes:
        # Imported here: only one who asks for it needs it.
        from kafkafs.mount.log_tree import followed_partitions

        source = self._logs.source
        return pretty_json(
            {
                "pid": os.getpid(),
                "sources": list(self._logs.paths),
                **self._facts,
                "uptimeSeconds": round(time.monotonic() - self._started, 1),
                **process_facts(),
                "partitions": len(source.partitions()),
                "nodes": list(source.nodes),
                "brokerPid": source.broker_pid,
                "clients": list(self._busiest(MOST_CLIENTS)),
                "followed": list(followed_partitions(source)),
            }
        )

    def _problems(self) -> bytes:
        problems: Sequence[Mapping[str, Any]] = source_problems(self._logs.source)
        return b"".join(json.dumps(each).encode() + b"\n" for each in problems)
