"""engine.checkpoint: the last number, byte and line that is taken, and how much of a bad one an error shows."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.checkpoint import properties_file
from engine.checkpoint.base64_uuid import random_uuid
from engine.checkpoint.checkpoint_file import MAX_ENTRIES, parse_checkpoint
from engine.checkpoint.clean_shutdown import read_clean_shutdown
from engine.checkpoint.decimal_text import parse_int32, parse_int64
from engine.checkpoint.json_object import int_field, parse_json_object
from engine.checkpoint.meta_properties import MetaProperties, MetaPropertiesVersion
from engine.checkpoint.meta_properties_ensemble import MetaPropertiesEnsemble
from engine.checkpoint.offset_checkpoint import parse_offset_checkpoint
from engine.checkpoint.partition_metadata import parse_partition_metadata
from engine.checkpoint.properties_file import parse_properties, render_properties, required_int
from engine.checkpoint.quorum_state import parse_quorum_state
from engine.errors import CorruptCheckpointError, LimitExceededError
from engine.files.source_files import SourceRoot

V1 = MetaPropertiesVersion.V1
LONG = "x" * 30 + "0123456789" * 9


@pytest.mark.parametrize(
    ("parse", "shown"),
    [
        (lambda: parse_offset_checkpoint(b"+" + b"0" * 39 + b"1\n0\n"), "+" + "0" * 39),
        (lambda: parse_offset_checkpoint(f"0\n1\n{LONG}\n".encode()), ascii(LONG[:80])),
        (lambda: parse_partition_metadata(LONG.encode()), ascii(LONG[:80])),
        (lambda: parse_partition_metadata(b""), "the end"),
        (lambda: required_int({"node.id": LONG}, "node.id"), ascii(LONG[:40])),
    ],
)
def test_an_error_shows_the_begin_of_a_long_text(parse: Callable[[], object], shown: str) -> None:
    with pytest.raises(CorruptCheckpointError) as caught:
        parse()
    assert caught.value.found == shown


@pytest.mark.parametrize(("data", "position"), [(b"\xff", 0), (b"0\n1\nab\xff 0 5\n", 6)])
def test_an_error_names_the_byte_that_is_not_utf8(data: bytes, position: int) -> None:
    with pytest.raises(CorruptCheckpointError, match="UTF-8") as caught:
        parse_offset_checkpoint(data)
    assert caught.value.position == position


def test_after_one_entry_too_many_nothing_is_parsed() -> None:
    with pytest.raises(CorruptCheckpointError, match="more than 0") as caught:
        parse_offset_checkpoint(b"0\n0\na 0 5\nrubbish\n")
    assert caught.value.line == 2
    assert parse_checkpoint(b"0\n1\na\n", lambda words: words) == [["a"]]


@pytest.mark.parametrize("digits", [38, 39, 40])
def test_a_number_has_at_most_40_digits(digits: int) -> None:
    assert parse_int32("7".rjust(digits, "0")) == parse_int64("7".rjust(digits, "0")) == 7
    with pytest.raises(ValueError, match="not a decimal"):
        parse_int32("7".rjust(41, "0"))


@pytest.mark.parametrize(
    ("number", "is_one"),
    [(2**63 - 1, True), (2**63, False), (1 - 2**63, True), (-(2**63) - 1, False), (True, False)],
)
def test_a_json_number_has_64_bits(number: int, is_one: bool) -> None:
    if is_one:
        assert int_field({"epoch": number}, "epoch") == number
    else:
        with pytest.raises(CorruptCheckpointError, match="64-bit"):
            int_field({"epoch": number}, "epoch")


def test_a_json_file_has_at_most_a_mebibyte() -> None:
    assert parse_json_object(b"{}".rjust(2**20)) == {}
    with pytest.raises(CorruptCheckpointError, match="too large") as caught:
        parse_json_object(b"{}".rjust(2**20 + 1))
    assert caught.value.found == 2**20 + 1


def test_a_properties_file_has_a_largest_number_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties_file, "MAX_LINES", 3)
    assert parse_properties(b"a=1\nb=2") == {"a": "1", "b": "2"}
    # The empty text after a last line end counts as a line.
    assert parse_properties(b"a=1\n\n") == {"a": "1"}
    with pytest.raises(LimitExceededError):
        parse_properties(b"a=1\n\n\n")


@pytest.mark.parametrize(
    "data", [b"topic id: x", b"version 0", b"version:0", b"version: ", b"versio: 0"]
)
def test_a_line_of_metadata_has_its_key_a_colon_a_blank_and_a_value(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match="no version") as caught:
        parse_partition_metadata(data)
    assert caught.value.line == 1


def test_a_random_uuid_has_16_bytes() -> None:
    asked = []

    def random_bytes(size: int) -> bytes:
        asked.append(size)
        return bytes(range(1, size + 1))

    text = random_uuid(random_bytes)
    assert asked == [16]
    assert base64.urlsafe_b64decode(text + "==") == bytes(range(1, 17))


def test_a_clean_shutdown_file_is_read_up_to_64_kibibytes(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    with SourceRoot(str(tmp_path)) as root:
        for size, expected in ((2**16, (0, 13)), (2**16 + 1, (None, None))):
            path.write_bytes(b'{"version":0,"brokerEpoch":13}'.rjust(size))
            assert read_clean_shutdown(root) == expected


def test_files_of_many_lines_are_read() -> None:
    assert (MAX_ENTRIES, properties_file.MAX_LINES) == (250_000, 100_000)


@pytest.mark.parametrize("version", [-1, 2])
def test_a_quorum_state_has_version_0_or_1(version: int) -> None:
    with pytest.raises(CorruptCheckpointError, match="version") as caught:
        parse_quorum_state(b'{"data_version":%d}' % version)
    assert (caught.value.expected, caught.value.found) == ("0 to 1", version)


def test_properties_are_written_in_printable_ascii() -> None:
    rendered = render_properties({"a": "\x1f ~\x7f\x80"})
    assert rendered == b"#\na=\\u001F ~\\u007F\\u0080\n"


def test_log_dirs_are_verified_as_asked() -> None:
    new = MetaPropertiesEnsemble(
        properties={"/a": MetaProperties(version=V1, cluster_id="c", node_id=1)}
    )
    new.verify(require_at_least_one_valid=True, cluster_id="c", node_id=1)
    with pytest.raises(CorruptCheckpointError, match="version") as caught:
        new.verify(require_v0=True)
    assert (caught.value.expected, caught.value.found) == (0, 1)
    with pytest.raises(CorruptCheckpointError, match="no metadata log dir"):
        new.verify(require_metadata_log_dir=True)
    with pytest.raises(CorruptCheckpointError, match="cannot be read"):
        MetaPropertiesEnsemble(error_log_dirs={"/m": "gone"}, metadata_log_dir="/m").verify()
    with pytest.raises(CorruptCheckpointError, match="no log dir"):
        MetaPropertiesEnsemble().verify(require_at_least_one_valid=True)
    MetaPropertiesEnsemble().verify()
    MetaPropertiesEnsemble(metadata_log_dir="/m").verify(require_metadata_log_dir=True)
