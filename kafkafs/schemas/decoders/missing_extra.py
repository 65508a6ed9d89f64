"""What is said when a decoder needs a package that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkafs.schemas.errors import UndecodableError


@contextmanager
def needed(extra: str, what: str) -> Iterator[None]:
    """Turn an ImportError into an UndecodableError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise UndecodableError(
            f"{what} needs a package that is not installed ({error.name}): "
            f"pip install 'kafkafs[{extra}]'"
        ) from None
