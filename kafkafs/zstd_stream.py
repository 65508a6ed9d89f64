"""A zstd stream of any length, decompressed piece by piece by the distribution's libzstd."""

from __future__ import annotations

import ctypes
import io
from functools import cache
from typing import cast

from engine.errors import SourceError

_PIECE = 1 << 14


class ZstdError(Exception):
    """The stream is damaged, or ends early."""


class _Buffer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("position", ctypes.c_size_t))


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        raise SourceError("zstd needs libzstd", hint="apt install libzstd1") from None
    library.ZSTD_createDCtx.restype = ctypes.c_void_p
    library.ZSTD_freeDCtx.argtypes = (ctypes.c_void_p,)
    library.ZSTD_decompressStream.restype = ctypes.c_size_t
    library.ZSTD_decompressStream.argtypes = (
        *(ctypes.c_void_p, ctypes.POINTER(_Buffer), ctypes.POINTER(_Buffer)),
    )
    library.ZSTD_isError.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.argtypes = (ctypes.c_size_t,)
    library.ZSTD_getErrorName.restype = ctypes.c_char_p
    return library


class ZstdReader(io.RawIOBase):
    """What a compressed stream holds, all its frames. Its memory is bounded by zstd's window, 128 MiB.

    Args:
        packed: the compressed stream.

    Raises SourceError without libzstd, and from reads ZstdError.
    """

    def __init__(self, packed: io.BufferedReader) -> None:
        self._library = _library()
        self._context = self._library.ZSTD_createDCtx()
        self._packed = packed
        self._read = 0
        self._data = b""
        self._source = _Buffer(None, 0, 0)
        self._is_between = True

    def close(self) -> None:
        context, self._context = self._context, None
        if context:
            self._library.ZSTD_freeDCtx(context)
        super().close()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast("bytearray", buffer)).cast("B")
        room = (ctypes.c_char * len(view)).from_buffer(view)
        target = _Buffer(ctypes.addressof(room), len(view), 0)
        while not target.position:
            if self._source.position == self._source.size:
                self._data = self._packed.read1(_PIECE)
                self._read += len(self._data)
                address = ctypes.cast(ctypes.c_char_p(self._data), ctypes.c_void_p)
                self._source = _Buffer(address, len(self._data), 0)
            left = self._library.ZSTD_decompressStream(
                self._context, ctypes.byref(target), ctypes.byref(self._source)
            )
            if self._library.ZSTD_isError(left):
                name = self._library.ZSTD_getErrorName(left).decode()
                place = self._read - self._source.size + self._source.position
                raise ZstdError(f"zstd at compressed byte {place:,}: {name}")
            if target.position:
                self._is_between = left == 0
            elif not self._data:
                if not self._is_between:
                    raise ZstdError(f"it ends early, after {self._read:,} compressed bytes")
                break
            else:
                self._is_between = left == 0
        return int(target.position)
