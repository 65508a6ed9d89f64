"""Disasters of a modelled cluster, and what a recovery makes of their disks, as a part."""

from __future__ import annotations

import tempfile
import traceback
from pathlib import Path

from tests.disasters.cases import Case
from tests.soak.parts import Job, Part


def recover_cases(job: Job) -> None:
    """Disasters, each from its number; what happened in them is counted."""
    for number in job.numbers():
        with tempfile.TemporaryDirectory(prefix="soak-disaster-") as work:
            case = Case((job.seed - 1) * 10**9 + number)
            try:
                found = case.problems(Path(work))
            except Exception:  # noqa: BLE001 - a recovery that fails is a finding
                found = [traceback.format_exc()]
        for kind in case.kinds:
            job.note(kind)
        if found:
            job.find(number, "\n".join([f"after {', '.join(sorted(case.kinds))}:", *found[:20]]))


PARTS = (
    Part(
        "disasters", "disasters of a modelled cluster, and their recovery", "cases", recover_cases
    ),
)
