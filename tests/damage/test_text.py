"""Faults 124 to 130: bytes of records and names of files on their way to a terminal or a parser.

Every byte and code point in every field is tested beside the text rules; here it is what a tree gives out.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from engine.log.log_directory import open_source
from kafkafs.tree.tree import Tree, TreeOptions
from tests.builders import Rec, batch, write_segment
from tests.damage.cases import BEFORE, GOOD_VALUES, START, log_dir
from tests.damage.reader import ROOT, Look
from tests.damage.survey import Survey

C0_AND_DEL = bytes(byte for byte in range(32) if byte != 10) + b"\x7f"
TERMINAL = [
    b"\x1b[2J\x1b[H",
    b"\x1b]0;title\x07",
    b"\x1b]52;c;cm0gLXJm\x07",
    b"\x1b]8;;http://evil\x1b\\link",
    "\u009b31m".encode(),
    b"\x9b31m",
    b"over\rwrite",
    b"back\x08\x08\x08",
    b"bell\x07",
    b"\x7f",
    *(bytes([byte]) for byte in range(256)),
]
HIDDEN = [
    *(chr(point).encode() for point in range(0x202A, 0x202F)),
    *(chr(point).encode() for point in range(0x2066, 0x206A)),
    *(chr(point).encode() for point in range(0x200B, 0x2010)),
    "\ufeff".encode(),
    "\U000e0041\U000e007f".encode(),
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xc0\x80",
    b"\xf5\x80\x80\x80",
    b"\xff\xfe",
    b"half\xe2\x82",
]
FORGED = [
    b'x\n{"topic":"t","partition":0,"offset":99,"value":"forged"}\n',
    b'{"error":{"kind":"crc_mismatch","position":0}}',
    b'"}\n{"error":{"kind":"zeros"}}\n{"a":"',
    b'{"a":1}\n{"b":2}',
    "line\u2028separator\u2029\u0085".encode(),
    b"\r\n\x0b\x0c\x1c\x1d\x1e",
    b'{"topic":"t","offset":0,"offset":1}',
    b"{\x22k\x22:\x22\x1b[2J\x22}",
    '{"\u202e":"\u200b"}'.encode(),
]


def with_values(folder: Path, values: list[bytes]) -> Path:
    """A log whose keys, values, header keys and header values are these bytes."""
    hostile = [
        Rec(value, value, START + number, ((value, value),)) for number, value in enumerate(values)
    ]
    return log_dir(folder, [batch(hostile, 0)])


def shown_back(shown: Any, encoding: str | None) -> bytes:
    """The bytes that a field of a record line stands for."""
    if encoding == "base64":
        return base64.b64decode(shown)
    return shown.encode() if isinstance(shown, str) else json.dumps(shown).encode()


def assert_harmless(data: bytes) -> None:
    """Nothing in it that a terminal obeys or an eye does not see."""
    assert not set(data) & set(C0_AND_DEL)
    text = data.decode()
    hidden = {c for c in text if unicodedata.category(c) in ("Cf", "Cc", "Zl", "Zp") and c != "\n"}
    assert not {c for c in hidden if ord(c) not in (0xAD, *range(0x600, 0x606))}, hidden


@pytest.mark.parametrize(
    "values", [TERMINAL, HIDDEN, FORGED], ids=["124-terminal", "125-hidden", "126-forged"]
)
def test_faults_124_to_126_a_record_is_one_harmless_line_that_can_be_read_back(
    tmp_path: Path, look: Look, values: list[bytes]
) -> None:
    found = look(with_values(tmp_path, values))
    lines = found.lines()
    assert len(lines) == len(values)
    for line, value in zip(lines, values, strict=True):
        assert line.count(b"\n") == 1
        assert_harmless(line)
        fact = json.loads(line)
        (header,) = fact["headers"]
        fields = [(fact, "key"), (fact, "value"), (header, "key"), (header, "value")]
        for holder, name in fields:
            back = shown_back(holder[name], holder.get(f"{name}Encoding"))
            if holder.get(f"{name}Encoding") == "json":
                assert json.loads(back) == json.loads(value)
            else:
                assert back == value


def test_fault_127_a_value_that_looks_like_an_error_is_a_value(tmp_path: Path, look: Look) -> None:
    found = look(with_values(tmp_path, [b'{"error":{"kind":"zeros","position":1}}', b"{}"]))
    assert not found.errors()
    assert found.values() == [{"error": {"kind": "zeros", "position": 1}}, {}]
    assert not any(line.startswith(b'{"error"') for line in found.lines())


NAMES = [b"esc\x1b[2J\x07-0", b"new\nline-0", b"\xff\xfe\x9b-0", "\u202eover-0".encode(), b"\x7f-0"]


def hostile_names(folder: Path) -> Path:
    """Partitions, files and strangers with such names, one file of each damaged."""
    log_dir(folder, BEFORE)
    for name in NAMES:
        partition = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        write_segment(partition, [*BEFORE, b"\xff" * 80])
        (partition / "leader-epoch-checkpoint").write_bytes(b"\x1b[2J garbage")
        Path(os.fsdecode(os.fsencode(partition) + b"/" + name + b".log")).write_bytes(b"")
        Path(os.fsdecode(os.fsencode(folder) + b"/x" + name[:-2])).mkdir()
    return folder


def test_fault_128_names_in_what_we_write_are_escaped(tmp_path: Path, look: Look) -> None:
    found = look(hostile_names(tmp_path))
    assert len(found.partitions) == 1 + len(NAMES)
    ours = [
        path
        for path in found.files
        if path.startswith((".kafkafs/", "state/", "README"))
        or re.search(r"/(state|records|committed)/", path)
    ]
    assert len(ours) > 40
    for path in ours:
        for line in found.files[path].splitlines():
            assert_harmless(line)
    for path, attributes in found.xattrs.items():
        for name, value in attributes.items():
            if name not in ("user.kafka.log_dirs", "user.kafka.topic"):  # bytes as they are
                assert not set(value) & set(C0_AND_DEL), (path, name)


@pytest.mark.parametrize(
    "words", [["cat", "nowhere\x1b[2J"], ["ls", "nowhere\x1b]0;x\x07"], ["cat", "t-0/\u202e"]]
)
def test_fault_128_messages_of_commands_are_escaped(tmp_path: Path, words: list[str]) -> None:
    log_dir(tmp_path, BEFORE)
    command, path = words
    ended = subprocess.run(
        [sys.executable, "-m", "kafkafs", command, tmp_path, path],
        capture_output=True,
        cwd=ROOT,
        check=False,
    )
    assert ended.returncode in (1, 2, 3)
    assert ended.stderr
    assert_harmless(ended.stderr.replace(b"\n", b" "))
    assert len(ended.stderr) < 2000


@pytest.mark.parametrize("value", [b"=1+1", b"+1", b"-1", b"@SUM(A1)", b'a,b"c', b"\tx", b"'x"])
def test_fault_129_what_a_spreadsheet_would_take_for_a_formula_is_kept_exactly(
    tmp_path: Path, look: Look, value: bytes
) -> None:
    # There is no CSV: JSON lines keep what was written, and .value gives its bytes.
    found = look(with_values(tmp_path, [value]))
    assert found.values() == [value.decode()]


def test_fault_130_without_values_no_line_shows_any(tmp_path: Path) -> None:
    log_dir(tmp_path, [batch([Rec(b"password", b"card", START, ((b"h", b"token"),))], 0)])
    tree = Tree(open_source(str(tmp_path)), options=TreeOptions(values="none"))
    views = [
        "records/%020d.jsonl",
        "committed/%020d.jsonl",
        "offset/%d",
        "offset/%d..",
        "time/2023",
    ]
    for view in views[:4]:
        node: Any = tree.follow(tree.resolve(f"t-0/{view % 0}"))
        content = node.open()
        data = content.read(0, content.size)
        content.close()
        assert data.count(b"\n") == 1
        assert not [word for word in (b"password", b"card", b"token") if word in data]
        assert json.loads(data)["valueSize"] == 8


def test_faults_124_to_130_the_records_beside_are_served(tmp_path: Path, look: Look) -> None:
    found: Survey = look(hostile_names(tmp_path))
    for partition in found.partitions:
        assert found.values(partition) == GOOD_VALUES[:6]
