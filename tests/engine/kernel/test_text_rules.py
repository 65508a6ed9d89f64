"""Text safety, exhaustively: no bytes of a record, in any field, reach a terminal, break the JSON or get lost.

Every line is written by the compiled kernel, by its Python twin and by `record_line`: the same bytes.
"""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings, strategies as st

from engine import kernel
from engine.columns.batch_table import BATCH_ROW
from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import TimestampType
from engine.record.record import Header, Record
from tests.builders import Producer, Rec, batch

KERNELS = ("compiled", "python") if kernel.is_compiled() else ("python",)
FASTEST = KERNELS[:1]
"""For the exhaustive tests; the twin writes each line with `record_line`, which they compare to anyway."""
MODES = ("auto", "text", "json", "base64", "hex", "none")
BIDI = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
WIDTHLESS = "\u061c\u200b\u200c\u200d\u200e\u200f\u2028\u2029\ufeff"
DANGEROUS = frozenset(
    chr(code)
    for code in range(0x110000)
    if unicodedata.category(chr(code)) == "Cc"
    or unicodedata.bidirectional(chr(code)) in BIDI
    or chr(code) in WIDTHLESS
    or 0x2060 <= code <= 0x206F
    or 0xE0000 <= code <= 0xE007F
)
DEFAULT_KERNEL = kernel.name


@pytest.fixture(autouse=True)
def _the_kernel_is_put_back() -> Iterator[None]:
    yield
    kernel.use(DEFAULT_KERNEL)


def lines_of(records: Sequence[Rec], values: str, writers: Sequence[str] = KERNELS) -> list[bytes]:
    """The lines of records in one batch by `record_line`, after the kernels agreed with it and on the size."""
    options = LineOptions("t", 0, values=values)
    made = batch(records, producer=Producer(id=7, epoch=1, sequence=5), transactional=True)
    table = np.zeros(1, BATCH_ROW.dtype)
    reference = [reference_line(record, index, options) for index, record in enumerate(records)]
    for name in writers:
        kernel.use(name)
        assert kernel.walk(made, table, 0, 0, True)[0] == 1
        found = kernel.lines(made, table, 0, 1, start_position=0, options=options)
        measured = kernel.lines(made, table, 0, 1, start_position=0, options=options, measure=True)
        assert found.problem is None
        assert found.text is not None
        assert found.records == measured.records == len(records)
        assert found.size == measured.size == len(found.text)
        if found.text != b"".join(reference):
            for line, expected in zip(found.text.splitlines(True), reference, strict=True):
                assert line == expected, name
    return reference


def reference_line(record: Rec, index: int, options: LineOptions) -> bytes:
    return record_line(
        Record(
            offset=index,
            timestamp=record.timestamp,
            timestamp_type=TimestampType.CREATE_TIME,
            key=record.key,
            value=record.value,
            headers=tuple(Header(*header) for header in record.headers),
            sequence=5 + index,
            leader_epoch=0,
        ),
        options,
        producer_id=7,
        producer_epoch=1,
        is_transactional=True,
    )


def everywhere(data: bytes) -> Rec:
    """A record that has these bytes in each of its fields."""
    return Rec(data, data, headers=[(data, data)])


def original(owner: dict[str, Any], name: str) -> bytes | None:
    """The bytes that a field of a line was made from; of embedded JSON its own text without spaces."""
    shown, encoding = owner[name], owner.get(f"{name}Encoding")
    if shown is None:
        return None
    if encoding == "base64":
        return base64.b64decode(shown, validate=True)
    if encoding == "hex":
        return bytes.fromhex(shown)
    if encoding == "json":
        assert isinstance(shown, (dict, list))
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()
    assert encoding is None
    assert isinstance(shown, str)
    return shown.encode()


def check_safe(lines: Sequence[bytes]) -> None:
    """That each line is one line for whoever reads it, and that nothing in it is for a terminal."""
    if not DANGEROUS.isdisjoint(b"".join(lines).decode().replace("}\n", "}")):
        for line in lines:
            assert line.endswith(b"}\n")
            assert DANGEROUS.isdisjoint(line[:-1].decode()), line
        pytest.fail("a control character between two lines")


def check(contents: Sequence[bytes], values: str, writers: Sequence[str] = KERNELS) -> None:
    """That records with these contents in every field are shown safely, and come back whole."""
    lines = lines_of([everywhere(data) for data in contents], values, writers)
    check_safe(lines)
    for data, line in zip(contents, lines, strict=True):
        facts = orjson.loads(line)
        if values == "none":
            assert facts["keySize"] == facts["valueSize"] == len(data)
            assert not {"key", "value"} & facts.keys()
            assert original(facts["headers"][0], "key") == data
            continue
        header = facts["headers"][0]
        fields = [(facts, "key"), (facts, "value"), (header, "key"), (header, "value")]
        for owner, name in fields:
            assert original(owner, name) == data, (data, line)


@pytest.mark.parametrize("values", MODES)
def test_all_single_bytes_in_every_field(values):
    check([b"", *(bytes([byte]) for byte in range(256))], values)


@pytest.mark.parametrize("values", ["auto", "text"])
def test_all_strings_of_two_bytes_in_every_field(values):
    check([number.to_bytes(2, "big") for number in range(65_536)], values, FASTEST)


def test_all_strings_of_two_bytes_inside_embedded_json():
    contents = [b'{"%s":0}' % number.to_bytes(2, "big") for number in range(65_536)]
    lines = lines_of([Rec(data) for data in contents], "auto", FASTEST)
    check_safe(lines)
    for data, line in zip(contents, lines, strict=True):
        facts = orjson.loads(line)
        try:
            expected = orjson.loads(data)
        except ValueError:
            assert original(facts, "value") == data, (data, line)
        else:
            assert facts["value"] == expected
            assert facts["valueEncoding"] == "json"


def chunks_of_all_code_points(size: int) -> Iterator[str]:
    """All code points but the surrogates, a string of `size` at a time."""
    everything = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for at in range(0, len(everything), size):
        yield "".join(everything[at : at + size])


@pytest.mark.parametrize("values", ["auto", "text"])
def test_all_code_points_in_every_field(values):
    check([chunk.encode() for chunk in chunks_of_all_code_points(251)], values)


def test_all_code_points_inside_embedded_json():
    chunks = list(chunks_of_all_code_points(251))
    contents = [json.dumps({chunk: [chunk]}, ensure_ascii=False).encode() for chunk in chunks]
    for chunk, line in zip(chunks, lines_of([Rec(d) for d in contents], "auto"), strict=True):
        assert DANGEROUS.isdisjoint(line[:-1].decode())
        facts = orjson.loads(line)
        assert facts["value"] == {chunk: [chunk]}
        assert facts["valueEncoding"] == "json"


def test_all_surrogates_are_not_utf8():
    contents = [chr(code).encode("utf-8", "surrogatepass") for code in range(0xD800, 0xE000)]
    for line in lines_of([Rec(data) for data in contents], "auto"):
        assert orjson.loads(line)["valueEncoding"] == "base64"
    check(contents, "text")


SPECIAL = [
    b'"', b"\\", b"\n", b"\x00", b"\x7f", b"\xc2\x85", "é".encode(), "\u202e".encode(), "中".encode(), "😀".encode(),
    "\U000e0041".encode(), b"\xff", b"\xe2\x80", b"\xed\xa0\x80", b"\\u00e9", b"\\ud83d\\ude00", b"\\ud83d",
]  # fmt: skip


@pytest.mark.parametrize("special", SPECIAL, ids=ascii)
def test_a_special_character_at_every_place_of_a_block(special):
    texts = [b"x" * before + special + b"y" * after for before in range(36) for after in range(36)]
    lines_of([Rec(text, b'["' + text + b'"]') for text in texts], "auto")


def test_a_record_cannot_forge_a_line_or_an_error_line():
    forged = [
        b'x"}\n{"error":{"reason":"forged"}}\n',
        b'{"error":{"reason":"forged"}}',
        b'\r\n{"topic":"other"}',
        '\u2028{"topic":"other"}\u0085\x0b\x0c\x1c\x1d\x1e'.encode(),
    ]
    for line in lines_of([everywhere(data) for data in forged], "auto"):
        assert line.decode().splitlines() == [line.decode()[:-1]]
        facts = orjson.loads(line)
        assert next(iter(facts)) == "topic"
        assert "error" not in facts


def test_terminal_sequences_are_shown_not_obeyed():
    osc = b"\x1b]52;c;cm0gLXJm\x07\x1b[31m\x9b2J\x1b]8;;http://x\x1b\\\x08\r"
    line = lines_of([Rec(osc.replace(b"\x9b", "\x9b".encode()))], "auto")[0]
    assert (
        rb'"value":"\u001b]52;c;cm0gLXJm\u0007\u001b[31m\u009b2J\u001b]8;;http://x\u001b\\\b\r"'
        in line
    )


def test_deep_and_long_json_is_embedded_up_to_the_limits_and_text_beyond():
    for depth, encoding in ((128, "json"), (129, None)):
        for opening, closing in ((b"[", b"]"), (b'{"":', b"}")):
            data = opening * depth + (b"0" if opening != b"[" else b"") + closing * depth
            line = orjson.loads(lines_of([Rec(data)], "auto")[0])
            assert line.get("valueEncoding") == encoding
    for size, encoding in ((4300, "json"), (4301, None)):
        line = json.loads(lines_of([Rec(b"[" + b"7" * size + b"]")], "auto")[0])
        assert line.get("valueEncoding") == encoding
    hostile = [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'["' + b"\\" * 100_001,
        b"[" + b"1," * 100_000 + b"]",
    ]
    lines_of([Rec(data) for data in hostile], "auto")


NUMBERS = [
    0, 1, -1, 9, 10, 99, 100, 2**31, 2**63 - 1, -(2**63),
    *(sign * (10**power + step) for power in range(1, 19) for step in (-1, 0, 1) for sign in (1, -1)),
    *(86_400_000 * day + extra for day in range(0, 2_932_897, 997) for extra in (0, 86_399_999)),
    253_402_300_799_999, 253_402_300_800_000, 951_782_400_000, 4_107_542_399_999,
]  # fmt: skip


def test_numbers_and_times():
    for line, number in zip(
        lines_of([Rec(timestamp=number) for number in NUMBERS], "auto"), NUMBERS, strict=True
    ):
        assert orjson.loads(line)["timestamp"] == number


pieces = st.sampled_from(
    [*SPECIAL, *(bytes([c]) for c in b'{}[]:,"0-.e \t'), b"true", b"null", b"false", b'"a":', b"1.5e3", b"[1]"]
)  # fmt: skip
contents = st.one_of(
    st.binary(max_size=80),
    st.text(max_size=60).map(str.encode),
    st.lists(pieces, max_size=12).map(b"".join),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    ).map(lambda value: json.dumps(value, ensure_ascii=False, indent=1).encode()),
)
records = st.builds(
    Rec,
    value=st.none() | contents,
    key=st.none() | contents,
    timestamp=st.integers(-(2**63), 2**63 - 1),
    headers=st.lists(st.tuples(contents, st.none() | contents), max_size=4),
    offset=st.none(),
)


@settings(max_examples=max(150, settings.default.max_examples))
@given(st.lists(records, min_size=1, max_size=8), st.sampled_from(MODES))
def test_both_kernels_write_what_record_line_writes(written, values):
    for line in lines_of(written, values):
        assert DANGEROUS.isdisjoint(line[:-1].decode())
        facts = json.loads(line)
        assert facts["transaction"] == {"producerId": 7, "producerEpoch": 1}
