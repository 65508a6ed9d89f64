"""The packages that know the codecs; each may be missing, and is then None.

The only place that imports them. zlib, which Python brings, stands in for isal.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from types import ModuleType
from typing import Any


def _optional(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


cramjam: Any = _optional("cramjam")
zstandard: Any = _optional("zstandard")
inflater: Any = _optional("isal.isal_zlib") or zlib
