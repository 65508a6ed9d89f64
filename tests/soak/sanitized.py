"""The compiled extensions under AddressSanitizer and UndefinedBehaviorSanitizer, built by gcc into folders of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

from tests.checkout import ROOT

KERNEL = "engine.kernel.compiled"
SOURCES = {
    KERNEL: ROOT / "engine" / "kernel" / "compiled.c",
    "kafkafs.schemas.programs.compiled": ROOT / "kafkafs" / "schemas" / "programs" / "compiled.c",
    "kafkafs.serve.quick.compiled": ROOT / "kafkafs" / "serve" / "quick" / "compiled.c",
}
"""The C source of each extension, by the name of its module."""
HEADERS = tuple(source.parent / "c" for source in SOURCES.values())
FLAGS = (
    "-shared", "-fPIC", "-O1", "-g", "-fno-omit-frame-pointer", "-std=gnu11", "-w", "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)  # fmt: skip
PRELOADED = ("libasan.so", "libstdc++.so")
"""The second because AddressSanitizer must find C++'s exceptions when it starts."""


def obstacle() -> str:
    """Why the extensions cannot be built so; empty when they can."""
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    if not Path(_library("libasan.so")).is_absolute():
        return "gcc has no libasan"
    missing = [name for name, source in SOURCES.items() if not source.exists()]
    return f"the C source of {missing[0]} is missing: run scripts/setup" if missing else ""


def _library(name: str) -> str:
    """Where gcc has a library; its bare name when it has none."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(source: Path, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared library of a C source, made again when the source or a header of an extension has changed."""
    stamp = hashlib.sha256(" ".join(flags).encode())
    for path in (source, *(path for folder in HEADERS for path in sorted(folder.glob("*.h")))):
        stamp.update(path.read_bytes())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    folder = ROOT / "build" / "soak" / f"{source.parent.name}-{stamp.hexdigest()[:16]}"
    target = folder / f"{source.stem}{suffix}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        include = [sysconfig.get_paths()["include"], HEADERS[0]]
        folders = [f"-I{each}" for each in (source.parent, *include)]
        command = ["gcc", *flags, *folders, str(source), "-o", str(made), "-ldl", "-lm"]
        subprocess.run(command, check=True)
        made.rename(target)
    return target


def libraries() -> dict[str, Path]:
    """The library of each extension, by the name of its module."""
    return {name: build(source) for name, source in SOURCES.items()}


def environment() -> dict[str, str]:
    """What a process needs to load such a library."""
    libraries = " ".join(_library(name) for name in PRELOADED)
    settings = {
        "detect_leaks": "0",
        "abort_on_error": "1",
        "allocator_may_return_null": "1",
        "max_allocation_size_mb": "2048",
        "quarantine_size_mb": "32",
        "handle_abort": "0",
    }
    return {
        **os.environ,
        "LD_PRELOAD": libraries,
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in settings.items()),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


class Finder:
    """Finds the built libraries wherever the extensions are imported; for `sys.meta_path`."""

    def __init__(self, found: Mapping[str, Path]) -> None:
        self._found = found

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """The library for an extension's name, nothing for others."""
        library = self._found.get(name)
        if library is None:
            return None
        loader = ExtensionFileLoader(name, str(library))
        return spec_from_file_location(name, library, loader=loader)


def use(found: Mapping[str, Path]) -> None:
    """Let the extensions be these libraries in the whole process, before their first import."""
    assert not found.keys() & sys.modules.keys()
    sys.meta_path.insert(0, Finder(found))  # type: ignore[arg-type]
