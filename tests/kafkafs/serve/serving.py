"""A running `kafkafs serve`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

START_SECONDS = 30


class Served(NamedTuple):
    """A server: its process, address and log, and the URL of its registry."""

    process: subprocess.Popen[str]
    host: str
    port: int
    log: Path
    schema_registry: str = ""

    @property
    def bootstrap(self) -> str:
        """The address as clients take it."""
        return f"{self.host}:{self.port}"

    def warned(self, *parts: str) -> bool:
        """Whether one line of the log has all parts, waited for."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            for line in self.log.read_text().splitlines():
                if all(part in line for part in parts):
                    return True
            time.sleep(0.02)
        return False

    def resident_bytes(self) -> int:
        """Memory of the process."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")


@contextmanager
def serving(
    source: Path,
    folder: Path,
    *options: str,
    under: Sequence[str] = (),
    program: Sequence[str] = ("-m", "kafkafs"),
) -> Iterator[Served]:
    """A server over a source until the end of the block; it must end by SIGTERM with status 0.

    Args:
        source: the source.
        folder: gets its log.
        options: more options.
        under: command that runs it.
        program: what Python runs.
    """
    log = folder / "serve.log"
    command = [
        *under,
        sys.executable,
        *program,
        "serve",
        str(source),
        "--listen",
        "127.0.0.1:0",
    ]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--print-config", *options], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("bootstrap.servers="), log.read_text()
        host, _, port = line.strip().removeprefix("bootstrap.servers=").rpartition(":")
        url = ""
        if "--schema-registry" in options:
            url = process.stdout.readline().strip().removeprefix("schema.registry.url=")
        yield Served(process, host, int(port), log, url)
        assert process.poll() is None, log.read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_SECONDS) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
