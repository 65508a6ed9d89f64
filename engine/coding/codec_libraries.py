"""The optional package of the codecs that Python does not have; None where it is missing.

The only module that imports it, on first use: bulk reading calls the codecs' C libraries.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

cramjam: Any


def __getattr__(name: str) -> ModuleType | None:
    if name != "cramjam":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        library: ModuleType | None = import_module(name)
    except ImportError:
        library = None
    globals()[name] = library
    return library
