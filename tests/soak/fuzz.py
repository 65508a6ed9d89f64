"""Fuzzing of every parser and of both extensions, in a process that sanitizers watch: one part for each target.

The inputs are made by mutators of our own that know the formats (lengths, checksums, codecs), each from its number alone.
Libraries that follow coverage were left out: libFuzzer and atheris need clang's instrumentation of the extensions and a corpus
that grows from run to run, while here any input can be made again from its seed and number, by gcc's sanitizers alone.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.checkout import ROOT
from tests.soak import sanitized
from tests.soak.fuzz_worker import MODULES, NUMBER, seed_of, target_of
from tests.soak.parts import Job, Part

HANGS_AFTER = 60.0
"""Seconds without a step to another input."""
NOT_BEGUN = -1
LOOK_EACH = 1.0
"""Seconds between two looks at the progress."""
KERNEL = (
    "walk", "records-v0", "records-v1", "records-v2", "frame-gzip", "frame-snappy", "frame-lz4", "frame-zstd", "summaries",
    "lines", "column-lines", "search", "look-ups", "dump-text", "gather", "compaction", "wild-columns", "text", "slots",
    "checksums",
)  # fmt: skip
PROGRAMS = ("avro-programs", "protobuf-programs", "avro-columns", "protobuf-columns")
FILES = (
    "offset-index", "time-index", "transaction-index", "producer-snapshot", "leader-epochs", "offset-checkpoint",
    "partition-metadata", "meta-properties", "quorum-state", "clean-shutdown", "rebuild-manifest", "batch-objects",
    "kraft-snapshot", "tiered-files", "folder-check", "folder-dump", "folder-tree",
)  # fmt: skip
MESSAGES = (
    "consumer-offsets", "transaction-state", "share-group-state", "cluster-metadata", "remote-log-metadata", "messages",
    "control-records", "file-names", "path-names", "patterns", "json-values",
)  # fmt: skip
FETCHES = ("fetches",)


class DiedError(Exception):
    """The worker ended, or had to be ended; the text is what it said."""


class Fuzzer:
    """A worker process, started anew when it has died.

    Args:
        libraries: the extensions to use instead of the installed ones, by the names of their modules.
        modules: further modules of targets.
        is_watched: whether sanitizers are loaded into the process.
    """

    def __init__(
        self,
        libraries: Mapping[str, Path] | None = None,
        modules: tuple[str, ...] = (),
        *,
        is_watched: bool = False,
    ) -> None:
        self._libraries = {name: str(path) for name, path in (libraries or {}).items()}
        self._modules = modules
        self._is_watched = is_watched
        self._folder = tempfile.TemporaryDirectory(prefix="soak-fuzz-")
        self._progress = Path(self._folder.name, "progress")
        self._errors = Path(self._folder.name, "stderr")
        self._process: subprocess.Popen[str] | None = None

    def ask(self, **job: Any) -> dict[str, Any]:
        """Run a job. Raises DiedError."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        seen, since = self.number, time.monotonic()
        while not select.select([process.stdout], [], [], LOOK_EACH)[0]:
            if self.number != seen:
                seen, since = self.number, time.monotonic()
            elif seen != NOT_BEGUN and time.monotonic() - since > HANGS_AFTER:
                process.send_signal(signal.SIGABRT)  # it shows where it is
                break
        line = process.stdout.readline()
        if not line:
            raise DiedError(self._died(process))
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def number(self) -> int:
        """The number of the current input."""
        return int(NUMBER.unpack(self._progress.read_bytes())[0])

    def stop(self) -> None:
        """End the process and remove its files."""
        if self._process is not None:
            self._end(self._process)
        self._folder.cleanup()

    def _end(self, process: subprocess.Popen[str]) -> int:
        process.communicate()  # closes its input, on which it ends
        self._process = None
        return process.returncode

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._progress.write_bytes(NUMBER.pack(NOT_BEGUN))
            environment = sanitized.environment() if self._is_watched else dict(os.environ)
            words = [str(self._progress), json.dumps(self._libraries), *self._modules]
            with self._errors.open("wb") as errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "tests.soak.fuzz_worker", *words],
                    cwd=ROOT,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    text=True,
                )
        return self._process

    def _died(self, process: subprocess.Popen[str]) -> str:
        status = self._end(process)
        said = self._errors.read_text(errors="replace")
        return f"the process ended with status {status}\n{said[:8000]}"


@cache
def fuzzer() -> Fuzzer:
    """The worker of this process, under sanitizers."""
    made = Fuzzer(sanitized.libraries(), is_watched=True)
    atexit.register(made.stop)
    return made


def fuzz(job: Job, worker: Fuzzer, modules: tuple[str, ...] = ()) -> None:
    """Try a target's inputs, and go on behind those that found something."""
    target = job.part.name.partition("/")[2]
    while not job.is_over:
        first = job.first + job.tried
        inputs = None if job.inputs is None else job.inputs - job.tried
        try:
            answer = worker.ask(
                target=target, seed=job.seed, first=first, inputs=inputs, seconds=job.left
            )
        except DiedError as error:
            number, wrong = max(worker.number, first), str(error)
        else:
            number, wrong = first + answer["tried"] - 1, answer["wrong"]
        job.tried = number + 1 - job.first
        if wrong:
            job.find(number, wrong, input_of(target, job.seed, number, modules))


def input_of(target: str, seed: int, number: int, modules: tuple[str, ...] = ()) -> bytes:
    """The bytes of one input."""
    chance = Random(seed_of(seed, target, number))
    made: bytes = target_of(target, (*modules, *MODULES)).make(chance)
    return made


def try_bytes(part: str, data: bytes) -> str:
    """What is wrong with what a part makes of some bytes; empty when nothing is."""
    try:
        answer = fuzzer().ask(target=part.partition("/")[2], input=data.hex())
    except DiedError as error:
        return str(error)
    return str(answer["wrong"])


def _part(name: str, what: str) -> Part:
    return Part(
        f"fuzz/{name}",
        what,
        "inputs",
        lambda job: fuzz(job, fuzzer()),
        sanitized.obstacle,
        fuzzer,
    )


PARTS = (
    *(_part(name, "hostile batches in the kernel, and in its twin") for name in KERNEL),
    *(
        _part(name, "hostile values in the programs of schemas, and in their twins")
        for name in PROGRAMS
    ),
    *(_part(name, "hostile files in their parsers") for name in FILES),
    *(_part(name, "hostile records and names in their parsers") for name in MESSAGES),
    *(_part(name, "hostile requests in the quick way of Fetch, and in Python") for name in FETCHES),
)
