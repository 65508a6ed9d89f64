"""What monitors ask for over HTTP: metrics in the text format of Prometheus at /metrics, and /healthz.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import trio

from engine.verdict.source_losses import source_problems
from kafkafs.api.source_logs import SourceLogs
from kafkafs.fuse.statistics import OperationStatistics
from kafkafs.process_facts import process_facts
from kafkafs.serve.control.counters import Counters
from kafkafs.serve.network.http import HttpAnswer, HttpRequest

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_READING = ("GET", "HEAD")

Samples: TypeAlias = Iterable[tuple[Mapping[str, str], float]]
_BY_API: tuple[tuple[str, str, Callable[[OperationStatistics], float]], ...] = (
    ("requests_total", "Requests by API.", lambda each: each.requests),
    ("request_errors_total", "Requests answered with an error.", lambda each: each.errors),
    ("request_seconds_total", "Time of requests.", lambda each: each.nanoseconds / 1e9),
)


class Metrics:
    """Answers the requests of monitors.

    Args:
        logs: the open source.
        counters: those of the connections.
        damage_answers: returns the number of answers that told of damage, or left it out.
        groups: returns the number of groups with members.
    """

    def __init__(
        self,
        logs: SourceLogs,
        counters: Counters,
        damage_answers: Callable[[], int],
        groups: Callable[[], int],
    ) -> None:
        self._logs = logs
        self._counters = counters
        self._damage_answers = damage_answers
        self._groups = groups

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Answer a request; the source is looked at in a thread."""
        if request.method not in _READING:
            return HttpAnswer(b"only GET is answered\n", status=405)
        if request.path == "/metrics":
            text = await trio.to_thread.run_sync(self.text)
            return HttpAnswer(text.encode("utf-8", "backslashreplace"), _TEXT)
        if request.path == "/healthz":
            gone = await trio.to_thread.run_sync(self._gone)
            if not gone:
                return HttpAnswer(b"ok\n")
            return HttpAnswer(f"cannot be read: {', '.join(gone)}\n".encode(), status=503)
        return HttpAnswer(b"there are /metrics and /healthz\n", status=404)

    def _gone(self) -> list[str]:
        """Return the sources that cannot be read now."""
        return [path for path in self._logs.paths if not os.access(path, os.R_OK)]

    def text(self) -> str:
        """Return the metrics now."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        counters, process = self._counters, process_facts()
        source = self._logs.source
        for name, sentence, value in (
            ("connections", "Clients that are connected.", counters.open),
            ("connections_accepted_total", "Connections served.", counters.accepted),
            ("connections_refused_total", "Connections refused: too many.", counters.refused),
            ("malformed_requests_total", "Connections closed as malformed.", counters.malformed),
            ("failed_logins_total", "Logins that failed.", counters.failed_logins),
            ("slow_clients_total", "Connections closed: too slow.", counters.too_slow),
            ("unexpected_errors_total", "Bugs of the server.", counters.unexpected_errors),
            ("sent_bytes_total", "Bytes of answers.", counters.bytes_sent),
            ("damage_answers_total", "Answers that met damage.", self._damage_answers()),
            ("groups", "Groups in memory.", self._groups()),
            ("partitions", "Partitions of the source.", len(source.partitions())),
            ("problems", "Problems found in the source.", len(source_problems(source))),
            ("memory_bytes", "Resident memory.", process["memoryBytes"]),
            ("open_descriptors", "Open descriptors.", process["openDescriptors"]),
            ("threads", "Threads.", process["threads"]),
        ):
            yield from _metric(name, sentence, [({}, value)])
        operations = {
            name: each for name, each in sorted(counters.operations.items()) if each.requests
        }
        for name, sentence, value_of in _BY_API:
            samples = [({"api": api}, value_of(each)) for api, each in operations.items()]
            yield from _metric(name, sentence, samples)
        yield from self._followed()

    def _followed(self) -> Iterator[str]:
        # Imported here: only one who asks for it needs it.
        from kafkafs.mount.log_tree import followed_partitions

        followed: list[dict[str, Any]] = list(followed_partitions(self._logs.source))
        for name, sentence, field in (
            ("unread_bytes", "Bytes behind the last look at a live log.", "unreadBytes"),
            ("log_end_offset", "End of a live log that clients see.", "logEndOffset"),
        ):
            samples = [({"partition": str(each["partition"])}, each[field]) for each in followed]
            yield from _metric(f"partition_{name}", sentence, samples)


def _metric(name: str, sentence: str, samples: Samples) -> Iterator[str]:
    kind = "counter" if name.endswith("_total") else "gauge"
    yield f"# HELP kafkafs_{name} {sentence}"
    yield f"# TYPE kafkafs_{name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"kafkafs_{name}{'{' + shown + '}' if shown else ''} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
