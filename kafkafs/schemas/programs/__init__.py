"""Programs: schemas compiled to flat instructions that C code runs over many values at once.

The readers in Python (`kafkafs.schemas.decoders`) are the reference. They read a value where the extension is not
built, where a program does not serve a schema, and where it refuses a value: they have the words for what is wrong with
its bytes.
"""

from __future__ import annotations

from types import ModuleType

from engine.kernel import zipped

try:
    from kafkafs.schemas.programs import compiled as _compiled
except ImportError:  # pragma: no cover
    extension: ModuleType | None = zipped.load(globals().get("__loader__"), f"{__name__}.compiled")
else:
    extension = _compiled
"""The extension; None where it was not built."""
