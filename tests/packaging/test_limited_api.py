"""The extensions compile for the limited API: a wheel has them for Python 3.11 and every later one."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.soak.sanitized import HEADERS, SOURCES, obstacle

OLDEST_PYTHON = "0x030b0000"


@pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "never")
@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
def test_an_extension_compiles_for_the_limited_api(source: Path) -> None:
    folders = (source.parent, HEADERS[0], sysconfig.get_paths()["include"])
    command = ["gcc", "-fsyntax-only", "-std=gnu11", "-w", f"-DPy_LIMITED_API={OLDEST_PYTHON}"]
    done = subprocess.run(
        [*command, *(f"-I{each}" for each in folders), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
