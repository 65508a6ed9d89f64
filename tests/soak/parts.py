"""A part of the soak, and one run of it: numbered inputs until a budget is used up, and what they found.

Input number N of a part is the same each time for the same seed, so that a run can go on where the last one ended, and a
finding can be tried again alone.
"""

from __future__ import annotations

import base64
import json
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.checkout import commit, now

MOST_FINDINGS = 20
"""A run of a part ends early with so many."""


@dataclass(frozen=True)
class Part:
    """A kind of test.

    Attributes:
        name: its name; `fuzz/lines` is in the group `fuzz`.
        what: one line about it.
        unit: what its inputs are.
        run: tries the inputs of a job.
        obstacle: why it cannot run here; empty when it can.
        prepare: makes what it needs, before its time begins.
    """

    name: str
    what: str
    unit: str
    run: Callable[[Job], None]
    obstacle: Callable[[], str] = lambda: ""
    prepare: Callable[[], object] = lambda: None

    @property
    def group(self) -> str:
        """What comes before the slash."""
        return self.name.partition("/")[0]


class Job:
    """One run of a part.

    Args:
        part, seed: what to run.
        first: number of the first input.
        seconds, inputs: the budget; None for no bound. At least one input is tried.
        findings: folder to keep findings in.

    Attributes:
        tried: number of inputs.
        found: files of the findings.
        notes: what a part counted besides, by name.
    """

    def __init__(
        self,
        part: Part,
        seed: int,
        first: int,
        *,
        seconds: float | None,
        inputs: int | None,
        findings: Path,
    ) -> None:
        self.part = part
        self.seed = seed
        self.first = first
        self.seconds = seconds
        self.inputs = inputs
        self.tried = 0
        self.found: list[Path] = []
        self.notes: dict[str, int] = {}
        self._findings = findings
        self.start()

    def start(self) -> None:
        """Begin to count the time: once more when everything that the part needs is made."""
        self._start = time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float | None:
        """Seconds that are left; None without a bound."""
        return None if self.seconds is None else max(self.seconds - self.spent, 0.0)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up, or there are findings enough."""
        if len(self.found) >= MOST_FINDINGS:
            return True
        if self.inputs is not None and self.tried >= self.inputs:
            return True
        return self.left is not None and not self.left and self.tried > 0

    def batches(self, size: int) -> Iterator[range]:
        """Numbers of inputs, so many at a time, counted as they are tried."""
        while not self.is_over:
            start = self.first + self.tried
            count = size if self.inputs is None else min(size, self.inputs - self.tried)
            yield range(start, start + count)
            self.tried += count

    def numbers(self) -> Iterator[int]:
        """The number of one input after the other."""
        for batch in self.batches(1):
            yield from batch

    def note(self, name: str, more: int = 1) -> None:
        """Count something besides."""
        self.notes[name] = self.notes.get(name, 0) + more

    def find(self, number: int, what: str, data: bytes | None = None, count: int = 1) -> None:
        """Keep a finding: how to try it again, and all bytes of the input if it has any, deflated."""
        again = f"scripts/soak {self.part.name} --seed {self.seed} --from {number} --inputs {count}"
        facts: dict[str, Any] = {
            "part": self.part.name,
            "seed": self.seed,
            "number": number,
            "inputs": count,
            "commit": commit(),
            "date": now(),
            "again": again,
            "what": what.splitlines(),
        }
        if data is not None:
            facts["zlib_input"] = base64.b64encode(zlib.compress(data, 9)).decode()
        self._findings.mkdir(parents=True, exist_ok=True)
        name = f"{self.part.name.replace('/', '-')}-{self.seed}-{number}.json"
        path = self._findings / name
        path.write_text(json.dumps(facts, indent=1) + "\n")
        self.found.append(path)
        print(f"FOUND by {self.part.name}: {what}\n  kept in {path}\n  again: {again}", flush=True)


def kept_input(facts: dict[str, Any]) -> bytes | None:
    """The bytes of a finding's input; None for a finding without one."""
    kept = facts.get("zlib_input")
    return None if kept is None else zlib.decompress(base64.b64decode(kept))
