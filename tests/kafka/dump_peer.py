"""Kafka's own DumpLogSegments in one JVM, run over and over."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tests.kafka import jars

SOURCE = Path(__file__).parent / "DumpPeer.java"
OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Dumped(NamedTuple):
    """What a run printed, and the exception that ended it, if one did."""

    out: bytes
    err: str
    thrown: str


class DumpPeer:
    """One JVM; a context manager. It writes to the files that it reads: give it copies."""

    def __init__(self, version: str = jars.CURRENT) -> None:
        command = jars.java_command(version, str(SOURCE), options=OPTIONS)
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

    def dump(self, files: Sequence[Path | str], *options: str) -> Dumped:
        """A run over files; RuntimeError when the JVM ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = ["--files", ",".join(map(str, files)), *options]
        print("\t".join(words), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended at {words}: its message is above")
        out, err, thrown = map(base64.b64decode, line.rstrip("\n").split(","))
        return Dumped(out, err.decode(), thrown.decode())
