"""Load compiled modules from a zip file, which Python itself does not do for compiled modules.

Spark sends code to a cluster as zip files. The module is loaded from memory: nothing is unpacked.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from zipimport import zipimporter

KERNEL = __name__.rpartition(".")[0] + ".compiled"


def load(loader: object, name: str = KERNEL) -> ModuleType | None:
    """Return a compiled module, the kernel or another, out of the zip file that a loader has read a module from.

    None if it is no zip file or has no such module for this Python and system.
    """
    if not isinstance(loader, zipimporter) or not hasattr(os, "memfd_create"):
        return None
    for suffix in EXTENSION_SUFFIXES:
        try:
            data = loader.get_data(name.replace(".", "/") + suffix)
            return _loaded(data, name)
        except (OSError, ImportError):
            continue
    return None


def _loaded(data: bytes, name: str) -> ModuleType:
    descriptor = os.memfd_create("kernel", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(data)
        path = f"/proc/self/fd/{descriptor}"
        loader = ExtensionFileLoader(name, path)
        spec = spec_from_file_location(name, path, loader=loader)
        if spec is None:
            raise ImportError(f"{name} cannot be loaded", name=name)
        module = module_from_spec(spec)
        loader.exec_module(module)
    finally:
        os.close(descriptor)
    sys.modules[name] = module
    return module
