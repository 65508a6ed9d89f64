"""Real nodes of Kafka (brokers, controllers, both in one), started many in one JVM: what each makes of its log dirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka import jars
from tests.kafka.judge import Judge

SOURCE = Path(__file__).parent / "judge" / "Nodes.java"
Answer = dict[str, Any]


class NodeJudge:
    """One JVM after the other: a node that does not start leaves threads behind; a context manager.

    Args:
        version: Kafka's.
        before: a command that runs Java, with its arguments.
    """

    def __init__(self, version: str = jars.CURRENT, before: Sequence[str] = ()) -> None:
        self._version = version
        self._before = before
        self._judge: Judge | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        if self._judge is not None:
            self._judge.__exit__(None, None, None)
            self._judge = None

    def _ask(self, command: str, **fields: Any) -> Answer:
        if self._judge is None:
            self._judge = Judge(self._version, SOURCE, self._before)
        return self._judge.ask(command, **fields)

    def format(self, properties: Path, cluster: str) -> None:
        """Format the log dirs that a file of properties names."""
        status = self._ask("format", properties=str(properties), cluster=cluster)["status"]
        assert status == 0

    def start(
        self,
        nodes: Sequence[Mapping[str, object]],
        *,
        fill: Sequence[Answer] = (),
        bootstrap: str = "",
        copies: Sequence[tuple[Path, Path]] = (),
        wait_ms: int = 0,
        seconds: int = 60,
    ) -> Answer:
        """Start nodes, ask the last one, and stop them as on SIGTERM.

        Args:
            nodes: properties of each; those before the last must start.
            fill: topics to make: `name`, `partitions`, `records`, `config`.
            bootstrap: where to make them.
            copies: folders to copy while the nodes run, as a crash would leave them: from, to.
            wait_ms: time between the last record and the copies.
            seconds: time that a start may take.

        Returns:
            `starts`, `hangs`, `message` of the end, `errors` (lines), `logs` by path with start and end, `live` log
            dirs, `led` partitions, and the `folders` of each log dir.
        """
        more = {"fill": list(fill), "bootstrap": bootstrap} if fill else {}
        pairs = [[str(each) for each in pair] for pair in copies]
        plain = [{name: str(value) for name, value in node.items()} for node in nodes]
        answer = self._ask(
            "start", nodes=plain, copy=pairs, wait_ms=wait_ms, seconds=seconds, **more
        )
        if not answer["starts"]:
            self._end()
        return answer
