"""ClusterState, which asks real clusters by Kafka's own admin client: one process for all questions to a version."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

from tests.kafka import jars
from tests.kafka.broker import BrokerError

SOURCE = Path(__file__).parent / "ClusterState.java"
ANSWER_SECONDS = 180.0
_END = "\x04"


class ClusterState:
    """The running program of one version of Kafka's jars."""

    def __init__(self, version: str) -> None:
        self._said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close
        self._process = subprocess.Popen(
            jars.java_command(version, str(SOURCE), options=("-Xmx256m",)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            encoding="utf-8",
        )

    def ask(self, *words: object) -> str:
        """What a command prints; BrokerError if it fails or takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        limit = threading.Timer(ANSWER_SECONDS, self._process.kill)
        limit.start()
        try:
            lines: list[str] = []
            for line in self._process.stdout:
                if line.startswith(_END):
                    break
                lines.append(line)
            else:
                line = f"{_END}ended"
        finally:
            limit.cancel()
        text = "".join(lines)
        if line.strip() != f"{_END}done":
            self._said.seek(0)
            raise BrokerError(f"{words[0]}: {(text + self._said.read())[-3000:]}")
        return text

    def close(self) -> None:
        """Ends the program."""
        self._process.kill()
        self._process.communicate()
        self._said.close()


@cache
def cluster_state(version: str) -> ClusterState:
    """The program of a version, which is started once."""
    return ClusterState(version)
