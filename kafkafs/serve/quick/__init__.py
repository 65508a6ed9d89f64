"""The quick way of Fetch, compiled: it sends an answer, receives the next request and answers it, if all is known.

What is known of a partition is what a request told before: proven batches of a segment. Any other request is left to
Python (`kafkafs.serve.handlers.fetch`), whose answers are the reference; without the extension Python answers all.
"""

from __future__ import annotations

from types import ModuleType

from engine.kernel import zipped

try:
    from kafkafs.serve.quick import compiled as _compiled
except ImportError:  # pragma: no cover
    extension: ModuleType | None = zipped.load(globals().get("__loader__"), f"{__name__}.compiled")
else:
    extension = _compiled
"""The extension; None where it was not built."""
