"""What `kafkafs --version` prints: the version, and what it runs with."""

from __future__ import annotations

import platform
import zlib
from collections.abc import Iterator
from importlib import metadata

from engine.version import __version__

LIBRARIES = ("numpy", "pyfuse3", "trio", "click", "pyspark")
FALLBACK = "cramjam"
"""Package that decompresses snappy, LZ4 and zstd where the kernel found no C library, and compresses them in Python."""
NOT_INSTALLED = "not installed"


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
    """Yield each codec with the library that decompresses it: one that the kernel calls, else a package of Python."""
    from engine import kernel
    from engine.coding.compression import CompressionType

    instead = {CompressionType.GZIP: f"zlib {zlib.ZLIB_RUNTIME_VERSION}"}
    for codec in CompressionType:
        if codec is CompressionType.NONE:
            yield "none"
        else:
            library = kernel.codec_library(codec) or instead.get(codec) or _package(FALLBACK)
            yield f"{codec.name.lower()} ({library})"


def _package(distribution: str) -> str:
    version = _version(distribution)
    return version if version == NOT_INSTALLED else f"{distribution} {version}"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
