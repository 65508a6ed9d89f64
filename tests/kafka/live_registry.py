"""A real schema registry on loopback, Apicurio's, whose API answers as Confluent's does; its schemas are in memory.

It comes from Maven Central, which has neither Confluent's registry nor Karapace.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kafka import jars
from tests.kafka.broker import START_SECONDS, STOP_SECONDS, free_ports

_HEAP = "-Xmx512m"


class LiveRegistry:
    """One registry; a context manager that starts and stops it.

    Args:
        home: folder of its log.
    """

    def __init__(self, home: Path) -> None:
        self._log = home / "registry.log"
        self._port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The API that is Confluent's."""
        return f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self._port,
            "apicurio.rest.deletion.artifact.enabled": "true",
            "apicurio.rest.deletion.artifact-version.enabled": "true",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        command = ["java", _HEAP, *options, "-jar", str(jars.registry_jar())]
        with open(self._log, "ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, start_new_session=True
            )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def ask(self, path: str) -> Any:
        """Return the answer to a request."""
        with urllib.request.urlopen(self.url + path, timeout=STOP_SECONDS) as answer:
            return json.load(answer)

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        process = self._process
        assert process is not None
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                self.ask("/subjects")
                return
            time.sleep(0.2)
        text = self._log.read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"the registry does not answer:\n{text[-4000:]}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
