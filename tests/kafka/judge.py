"""Kafka's own log classes, asked from Python: one JVM that answers a line of JSON with another.

The program is judge/Judge.java. Where Kafka refuses something as a whole, `JudgeError` has its exception.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka import jars

SOURCE = Path(__file__).parent / "judge" / "Judge.java"
OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
Answer = dict[str, Any]


class JudgeError(Exception):
    """Kafka refused; `name` is the class of its exception."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Judge:
    """One JVM; a context manager.

    Args:
        version: Kafka's.
        source: the program.
        before: a command that runs Java, with its arguments.
    """

    def __init__(
        self, version: str = jars.CURRENT, source: Path = SOURCE, before: Sequence[str] = ()
    ) -> None:
        self.version = version
        command = [*before, *jars.java_command(version, str(source), options=OPTIONS)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def ask(self, command: str, **fields: Any) -> Answer:
        """One command; JudgeError when it failed, RuntimeError when the JVM ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"command": command, **fields}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended at {command}: its message is above")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise JudgeError(answer["error"], answer["message"])
        return answer

    def load(
        self, folder: Path, head: Answer | None = None, reads: Sequence[tuple[int, str]] = ()
    ) -> Answer:
        """What Kafka makes of a folder, which it changes.

        Args:
            folder: named after topic and partition.
            head: `clean` (whether the broker before is said to have stopped properly), `log_start` and
                `recovery_point` (as the log dir's checkpoints have them), `config` (topic properties),
                `now_ms`.
            reads: offsets and isolations (LOG_END, HIGH_WATERMARK or TXN_COMMITTED) to read from, with
                the high watermark at the log's end.

        Returns:
            `state`, `reads` (for each a list of [offset, timestamp, CRC of key, CRC of value], as a consumer
            sees them) and the `files` of the folder after closing, as in `tests.log_scripts`.
        """
        wanted = [list(read) for read in reads]
        return self.ask("load", folder=str(folder), **(head or {}), reads=wanted)

    def read(self, folder: Path, offset: int, isolation: str = "LOG_END") -> list[list[Any]]:
        """What a consumer gets from an offset on, out of a copy of a log that was closed properly."""
        with tempfile.TemporaryDirectory(prefix="judged-") as made:
            copy = Path(made, folder.name)
            shutil.copytree(folder, copy)
            answer: list[list[Any]] = self.load(copy, reads=[(offset, isolation)])["reads"][0]
        return answer

    def write(self, folder: Path, script: Answer) -> Answer:
        """A script of `tests.log_scripts`, run by Kafka in this folder."""
        return self.ask("write", folder=str(folder), **script)

    def checkpoint(self, file: Path, entries: Iterable[tuple[str, int, int]]) -> str:
        """The text of an offset checkpoint that Kafka writes: topic, partition and offset of each entry."""
        made = self.ask("checkpoint", file=str(file), entries=[list(entry) for entry in entries])
        text: str = made["text"]
        return text
