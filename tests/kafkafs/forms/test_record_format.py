r"""A format prints what kcat 1.7.1 prints; what it printed for these escapes was noted here.

`tests/kafka/test_kcat_format.py` compares with kcat itself.
"""

from __future__ import annotations

import pytest

from kafkafs.forms.record_format import FormatError, RecordFormat


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"\n\r\t\\\q", b"\n\r\t\\q"),
        (r"\x0a", b"\n"),
        (r"\x41bc", b"\xbc"),
        (r"\x0x41g", b"Ag"),
        (r"\xff", b"ff"),
        (r"\65\0101\0x42", b"AAB"),
        (r"\x7", b"\x07"),
        (r"\65536a", b"\x00a"),
        (r"\x9999999999999999999999", b"\xff"),
        ("a\\", b"a\\"),
        ("Zürich", "Zürich".encode()),
    ],
)
def test_escapes_are_those_of_kcat(text: str, expected: bytes) -> None:
    assert RecordFormat.parse(text.encode()).pieces == (expected,)


def test_tokens_are_letters_between_texts() -> None:
    assert RecordFormat.parse(b"%k: %s%%\\%o").pieces == ("k", b": ", "s", b"%", b"\\", "o")
    assert RecordFormat.parse(b"").pieces == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%v", "%s is the value"),
        ("50%", "write %% for a percent sign"),
        ("%ü", "is none of %s %S %R %k %K %t %p %o %T %h %%"),
        ("\\x", r"digits are missing after \\x"),
    ],
)
def test_what_kcat_does_not_know_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        RecordFormat.parse(text.encode())
