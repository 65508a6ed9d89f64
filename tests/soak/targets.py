"""What is fuzzed: a target makes hostile bytes, and reads them with one parser, which may only refuse them by its errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from engine.errors import DamagedFileError, InvalidNameError, UnsupportedCodecError

REFUSALS: tuple[type[Exception], ...] = (DamagedFileError, InvalidNameError, UnsupportedCodecError)
"""The errors by which a parser may say that bytes are damaged."""


@dataclass(frozen=True)
class Target:
    """A parser and the bytes for it.

    Attributes:
        make: makes the bytes of one input.
        read: reads them; what it raises beside REFUSALS is a finding.
    """

    make: Callable[[Random], bytes]
    read: Callable[[bytes], object]

    def wrong(self, data: bytes) -> Exception | None:
        """What reading some bytes raised that it may not raise."""
        try:
            self.read(data)
        except REFUSALS:
            return None
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return error
        return None
