"""A run of the dump, as a command line makes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from kafkafs.cli import cli


class Dumped(NamedTuple):
    """What a run printed and how it ended."""

    out: bytes
    err: str
    status: int

    @property
    def lines(self) -> list[str]:
        return self.out.decode("utf-8", "surrogateescape").splitlines()

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.decode().split("\n") if line]


def dump(paths: Path | str | Sequence[Path | str], *options: str) -> Dumped:
    """`kafkafs dump` of one path or more."""
    several = [paths] if isinstance(paths, Path | str) else paths
    result = CliRunner().invoke(cli, ["dump", *options, *map(str, several)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Dumped(result.stdout_bytes, result.stderr, result.exit_code)
