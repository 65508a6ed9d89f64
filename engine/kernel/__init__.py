"""The kernel: walks batches, decodes records, writes their lines and columns, searches bytes and slots.

The compiled kernel is used where it was built, its pure-Python twin elsewhere; both return the same
results. Call the functions through the module (`kernel.walk(...)`), because `use` replaces them.
"""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from engine.columns.columns import Columns as Columns
from engine.lines.lines_result import LinesResult as LinesResult
from engine.lines.record_line import LineOptions as LineOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.kernel.python import *  # noqa: F403

try:
    from engine.kernel import compiled
except ImportError:  # pragma: no cover
    from engine.kernel import zipped

    _compiled: ModuleType | None = zipped.load(globals().get("__loader__"))
else:
    _compiled = compiled

_FUNCTIONS = [
    "batch_facts",
    "column_lines",
    "contains",
    "count_headers",
    "decode",
    "dump_rows",
    "encode_records",
    "find_batch",
    "floor_slot",
    "gather",
    "gather_headers",
    "good_rows",
    "how_shown",
    "keep_records",
    "lines",
    "locate",
    "matching",
    "move_slots",
    "offsets_of",
    "put_keys",
    "read_batch",
    "read_line",
    "read_lines",
    "read_message",
    "read_record",
    "record_facts",
    "summarize",
    "text_piece",
    "walk",
    "write_message",
]
"""Names that `use` replaces."""

name: str
"""Kernel in use: "compiled" or "python"."""


def is_compiled() -> bool:
    """Return whether the compiled kernel was built for this Python."""
    return _compiled is not None


def codec_library(codec: int) -> str | None:
    """Return the name and version of the library by which the kernel in use inflates a codec; None without one."""
    if _compiled is None or name != "compiled":
        return None
    found: str | None = _compiled.codec_library(codec)
    return found


def _with_mask(function: Callable[..., LinesResult]) -> Callable[..., LinesResult]:
    """Return a function of the kernel that masks its lines if the options have a mask."""

    @wraps(function)
    def call(*given: Any, **named: Any) -> LinesResult:  # noqa: ANN401 - the kernel's own
        if named["options"].mask is None:
            return function(*given, **named)
        # Imported here: most lines have no mask.
        from engine.lines import masked_lines

        masked: LinesResult = getattr(masked_lines, f"masked_{function.__name__}")(
            function, *given, **named
        )
        return masked

    return call


def _with_decoder(column_lines: Callable[..., LinesResult]) -> Callable[..., LinesResult]:
    """Return the kernel's `column_lines` that gives the records to the decoder of the options many at once."""

    @wraps(column_lines)
    def call(
        table: Any,  # noqa: ANN401 - the kernel's own
        columns: Columns,
        **named: Any,  # noqa: ANN401
    ) -> LinesResult:
        if named["options"].decoder is None or named.get("texts") is not None or len(columns) < 2:
            return column_lines(table, columns, **named)
        # Imported here: most records have no decoder.
        from engine.lines.decoded_lines import decoded_column_lines

        named.pop("texts", None)
        return decoded_column_lines(column_lines, table, columns, **named)

    return call


def use(which: str) -> None:
    """Switch to the "compiled" or the "python" kernel; for tests and measurements.

    Raises:
        ModuleNotFoundError: the compiled kernel was not built.
        ValueError: the name is another.
    """
    global name
    if which not in ("compiled", "python"):
        raise ValueError(f"no kernel is called {which!r}")
    # The twin is imported where it is used: its import takes longer than a look-up.
    module = _compiled if which == "compiled" else import_module(f"{__name__}.python")
    if module is None:
        raise ModuleNotFoundError("the compiled kernel was not built: run scripts/setup")
    for function in _FUNCTIONS:
        globals()[function] = getattr(module, function)
    # The kernels know no masks; `read_line` and `read_lines` make no line for options with one.
    globals()["lines"] = _with_mask(module.lines)
    globals()["column_lines"] = _with_mask(_with_decoder(module.column_lines))
    name = which


use("python" if _compiled is None else "compiled")
