"""The compiled kernel under AddressSanitizer and UndefinedBehaviorSanitizer, built by gcc into a folder of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

from tests.checkout import ROOT

KERNEL = ROOT / "engine" / "kernel"
SOURCE = KERNEL / "compiled.c"
NAME = "engine.kernel.compiled"
FLAGS = (
    "-shared", "-fPIC", "-O1", "-g", "-fno-omit-frame-pointer", "-std=gnu11", "-w", "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)  # fmt: skip
PRELOADED = ("libasan.so", "libstdc++.so")
"""The second because AddressSanitizer must find C++'s exceptions when it starts."""


def obstacle() -> str:
    """Why the kernel cannot be built so; empty when it can."""
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    if not Path(_library("libasan.so")).is_absolute():
        return "gcc has no libasan"
    return "" if SOURCE.exists() else "the kernel's C source is missing: run scripts/setup"


def _library(name: str) -> str:
    """Where gcc has a library; its bare name when it has none."""
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def build(source: Path = SOURCE, flags: tuple[str, ...] = FLAGS) -> Path:
    """The shared library of a C source, made again when anything of the kernel has changed."""
    stamp = hashlib.sha256(" ".join(flags).encode())
    for path in (source, *sorted((KERNEL / "c").glob("*.h"))):
        stamp.update(path.read_bytes())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    folder = ROOT / "build" / "soak" / f"kernel-{stamp.hexdigest()[:16]}"
    target = folder / f"{source.stem}{suffix}"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = target.with_suffix(f".{os.getpid()}")
        include = sysconfig.get_paths()["include"]
        command = ["gcc", *flags, f"-I{KERNEL}", f"-I{include}", str(source), "-o", str(made)]
        subprocess.run([*command, "-ldl"], check=True)
        made.rename(target)
    return target


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
    """Finds the built library wherever the kernel is imported; for `sys.meta_path`."""

    def __init__(self, library: Path) -> None:
        self._library = library

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """The library for the kernel's name, nothing for others."""
        if name != NAME:
            return None
        loader = ExtensionFileLoader(name, str(self._library))
        return spec_from_file_location(name, self._library, loader=loader)


def use(library: Path) -> None:
    """Let the kernel be this library in the whole process, before its first import."""
    assert NAME not in sys.modules
    sys.meta_path.insert(0, Finder(library))  # type: ignore[arg-type]
