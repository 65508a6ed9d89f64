"""The optional package of the codecs that Python does not have.

The only module that imports it, on first use: bulk reading calls the codecs' C libraries. Where it is missing, each use
raises ImportError.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

cramjam: Any


def __getattr__(name: str) -> ModuleType:
    if name != "cramjam":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library = import_module(name)
    globals()[name] = library
    return library
