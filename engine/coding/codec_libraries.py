"""Optional codec packages; a missing one is None.

The only module that imports them, each on first use: bulk reading does not need them. Python's zlib
replaces a missing isal.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from types import ModuleType
from typing import Any

cramjam: Any
zstandard: Any
inflater: Any


def __getattr__(name: str) -> ModuleType | None:
    if name == "inflater":
        library: ModuleType | None = _optional("isal.isal_zlib") or zlib
    elif name in ("cramjam", "zstandard"):
        library = _optional(name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = library
    return library


def _optional(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None
