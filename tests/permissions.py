"""The system's refusals, real ones, also where the tests run as root."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522
_DAC_OVERRIDE, _DAC_READ_SEARCH = 1 << 1, 1 << 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextmanager
def modes_count() -> Iterator[None]:
    """Within, a file of mode 0 cannot be read, by root either: this thread gives up the right to pass over modes.

    Threads that are started within inherit that; programs that are run do not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = _Header(_VERSION_3, 0), (_Data * 2)()
    _call(libc.capget, header, data)
    before = data[0].effective
    data[0].effective = before & ~(_DAC_OVERRIDE | _DAC_READ_SEARCH)
    _call(libc.capset, header, data)
    try:
        yield
    finally:
        data[0].effective = before
        _call(libc.capset, header, data)


def _call(function: ctypes._NamedFuncPointer, header: _Header, data: ctypes.Array[_Data]) -> None:
    if function(ctypes.byref(header), data):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
