r"""A format prints what kcat 1.7.1 prints; what it printed for these escapes was noted here.

`tests/kafka/test_kcat_format.py` compares with kcat itself.
"""

from __future__ import annotations

import base64
import json

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.forms.record_format import FormatError, RecordFormat
from tests.fixtures_data import log_dir, truth_records


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
        ("%q", "%q is none of"),
        ("50%", "write %% for a percent sign"),
        ("%ü", "is none of %s %S %R %k %K %t %p %o %T %h %v %V %d %H %e %x %y %%"),
        ("\\x", r"digits are missing after \\x"),
    ],
)
def test_what_kcat_does_not_know_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        RecordFormat.parse(text.encode())


def printed(*more: str) -> list[str]:
    words = ["cat", str(log_dir("sample")), "txn-0/offset/3..6", *more]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.stderr
    return done.stdout.splitlines()


def test_tokens_and_forms_of_rpk_say_what_the_record_has() -> None:
    found = []
    for line in printed("--format", r"%v{hex} %k{base64} %o{hex64} %d %V %H %e\n"):
        value, key, offset, *numbers = line.split(" ")
        found.append(
            [bytes.fromhex(value), base64.b64decode(key), int(offset, 16), *map(int, numbers)]
        )
    assert found == [
        [
            each.value,
            each.key,
            each.offset,
            each.timestamp,
            len(each.value or b""),
            0,
            each.leader_epoch,
        ]
        for each in truth_records("sample", "txn-0")[3:6]
    ]
    nobody = {"producerId": -1, "producerEpoch": -1}
    producers = [json.loads(line).get("transaction", nobody) for line in printed()]
    assert printed("--format", r"%x %y{ascii}\n") == [
        f"{each['producerId']} {each['producerEpoch']}" for each in producers
    ]


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (r"%o{hex4}%p{hex8}%o{hex}", "3003"),
        (r"%o{big16}%o{little16}%o{big8}", "\x00\x03\x03\x00\x03"),
        (r"%K{hex32}", "00000002"),
        (r"%k{hex}", "7230"),
        (r"%k{base64raw}", "cjA"),
    ],
)
def test_a_form_shows_the_last_bits_of_a_number(form: str, expected: str) -> None:
    assert printed("--format", form + r"\n")[0] == expected


def test_braces_that_are_no_form_of_the_token_are_text_as_in_kcat() -> None:
    assert RecordFormat.parse(b"%t{hex}%k{big32}{%o}").pieces == (
        "t", b"{hex}", "k", b"{big32}{", "o", b"}",
    )  # fmt: skip
