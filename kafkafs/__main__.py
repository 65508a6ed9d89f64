"""The process of the `kafkafs` command, also as `python -m kafkafs`: what makes it start and end quickly.

A short command takes most of its time for imports and for the end of the interpreter. So the cyclic garbage collector
is off during imports, which make objects and no garbage (`kafkafs.cli` turns it on), and the process ends without
taking all these objects apart.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

_status: list[int] = []
"""The exit status, once the command has ended."""


def main() -> NoReturn:
    """Run the command line and exit with its status."""
    gc.disable()
    # The first one registered is called last: all threads have ended by then, and the functions of all libraries ran.
    atexit.register(_end)
    from kafkafs.cli import main as run

    try:
        run()
    except SystemExit as left:
        if isinstance(left.code, int):
            _status.append(left.code)
        raise


def _end() -> None:
    """End the process here, unless an exception or another status ends it."""
    if _status:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(_status[0])


if __name__ == "__main__":
    main()
