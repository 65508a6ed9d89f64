"""The C code's numbers are those that Python declares."""

from pathlib import Path

from engine import kernel
from engine.kernel.format_header import format_header

C = Path(kernel.__file__).parent / "c"


def test_the_c_header_is_made_from_the_declarations() -> None:
    assert (C / "format.h").read_text() == format_header()
