"""What `kafkafs --version` prints: the version, and what it runs with."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata

from engine.version import __version__

LIBRARIES = ("numpy", "pyfuse3", "trio", "click", "pyspark")


def version_lines() -> Iterator[str]:
    """Yield the lines; the first is the name and the version."""
    from engine import kernel

    yield f"kafkafs {__version__}"
    kind = "compiled" if kernel.is_compiled() else "Python (no compiled kernel was found)"
    yield f"kernel   {kind}"
    yield f"codecs   {', '.join(codecs())}"
    yield f"python   {platform.python_version()} ({platform.machine()})"
    for name in LIBRARIES:
        yield f"{name:<8} {_version(name)}"


def codecs() -> Iterator[str]:
    """Yield the codecs that Python's libraries decompress here; the compiled kernel brings or finds its own."""
    from engine.coding.compression import CompressionType, compress, decompress
    from engine.errors import KafkaStorageError

    for codec in CompressionType:
        with suppress(KafkaStorageError):
            if codec is CompressionType.NONE or decompress(
                codec, compress(codec, b"kafkafs"), limit=100
            ):
                yield codec.name.lower()


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
