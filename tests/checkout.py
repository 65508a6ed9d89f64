"""Which state of the repository is tested, and when: for the tables that test runs write."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def now() -> str:
    """The date and time in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@cache
def commit() -> str:
    """The commit of the working tree, with -dirty when it was changed since; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()
