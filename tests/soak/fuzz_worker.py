"""The process that reads hostile bytes: jobs come as lines of JSON, and it may die of them.

    python -m tests.soak.fuzz_worker PROGRESS LIBRARIES [MODULE]

PROGRESS is a file that has the number of the current input, whatever becomes of the process. LIBRARIES is a JSON object:
libraries to use instead of the installed extensions, by the names of their modules. MODULE has further targets.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import struct
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from tests.soak import sanitized

MODULES = (
    "tests.soak.fuzz_kernel", "tests.soak.fuzz_programs", "tests.soak.fuzz_columns", "tests.soak.fuzz_files", "tests.soak.fuzz_messages",
    "tests.soak.fuzz_fetches",
)  # fmt: skip
NUMBER = struct.Struct("<q")
LONGEST = 10.0
"""Seconds of processor time that one input may take."""
LOOK_EVERY = 16
"""Inputs between two looks at the clock."""


def target_of(name: str, modules: tuple[str, ...] = MODULES) -> Any:
    """The target of a name."""
    for module in modules:
        make = import_module(module).TARGETS.get(name)
        if make is not None:
            return make()
    raise KeyError(name)


def tried(target: Any, data: bytes) -> str:
    """What is wrong with what a target makes of an input; empty when nothing is."""
    start = time.process_time()
    error = target.wrong(data)
    spent = time.process_time() - start
    if error is not None:
        return "".join(traceback.format_exception(error))
    return f"took {spent:.1f} s" if spent > LONGEST else ""


class Worker:
    """Runs jobs: so many inputs of a target, or as many as fit into a time."""

    def __init__(self, progress: Path, modules: tuple[str, ...]) -> None:
        with progress.open("r+b") as file:
            self._progress = mmap.mmap(file.fileno(), NUMBER.size)
        self._modules = modules
        self._targets: dict[str, Any] = {}

    def target(self, name: str) -> Any:
        """A target, made once."""
        if name not in self._targets:
            self._targets[name] = target_of(name, self._modules)
        return self._targets[name]

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """One job; how many inputs were tried, and what the last one found."""
        target = self.target(job["target"])
        if job.get("input") is not None:
            return {"tried": 1, "wrong": tried(target, bytes.fromhex(job["input"]))}
        number, last = job["first"], job["first"] + (job["inputs"] or 1 << 62)
        end = time.monotonic() + (job["seconds"] or 1 << 40)
        random = Random()
        while number < last:
            NUMBER.pack_into(self._progress, 0, number)
            random.seed(seed_of(job["seed"], job["target"], number))
            wrong = tried(target, target.make(random))
            number += 1
            if wrong:
                return {"tried": number - job["first"], "wrong": wrong}
            if number % LOOK_EVERY == 0 and time.monotonic() > end:
                break
        return {"tried": number - job["first"], "wrong": ""}


def seed_of(seed: int, target: str, number: int) -> int:
    """The seed of one input's chance."""
    return (seed << 96) + (crc32(target.encode()) << 64) + number


def main() -> None:
    """Answer each job with a line."""
    faulthandler.enable()
    progress, libraries, *modules = sys.argv[1:]
    sanitized.use({name: Path(path) for name, path in json.loads(libraries).items()})
    worker = Worker(Path(progress), (*modules, *MODULES))
    for line in sys.stdin:
        print(json.dumps(worker.run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
