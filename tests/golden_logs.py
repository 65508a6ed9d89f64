"""Logs that Kafka's classes wrote, with the calls that made them; see tests/kafka/golden_logs.py."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "data" / "golden" / "logs.json.gz"


@cache
def cases() -> dict[str, dict[str, Any]]:
    """By theme: `script`, and `answer` as `tests.log_scripts.run` gives it but for the files."""
    found: dict[str, dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    return found


def files_of(theme: str) -> dict[str, bytes]:
    """The files that Kafka left, by name."""
    files = cases()[theme]["answer"]["files"]
    return {name: base64.b64decode(text) for name, text in files.items()}
