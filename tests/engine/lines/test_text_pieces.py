"""Texts of large fields made piece by piece: together they are what `bytes_json` gives."""

from __future__ import annotations

import json
import random
from types import ModuleType

import pytest

from engine.kernel import python as kernel_python
from engine.lines.json_text import Shown, Values, bytes_json

compiled = pytest.importorskip("engine.kernel.compiled")
KERNELS = pytest.mark.parametrize("kernel", [compiled, kernel_python], ids=["compiled", "python"])
MODES = (Values.AUTO, Values.TEXT, Values.JSON, Values.BASE64, Values.HEX)
ODD = [
    *range(0x20, 0x7F),
    0x00,
    0x01,
    0x0A,
    0x22,
    0x5C,
    0x7F,
    0xE9,
    0x202E,
    0x200B,
    0x1F600,
    0xE0001,
]


def text(pick: random.Random, size: int) -> str:
    return "".join(chr(pick.choice(ODD)) for _ in range(size))


def value(pick: random.Random, depth: int = 0) -> object:
    kind = pick.randrange(6 if depth < 4 else 2)
    if kind == 0:
        return text(pick, pick.randrange(30))
    if kind == 1:
        return pick.choice([None, True, -(10**20), 1e300])
    if kind in (2, 3):
        return [value(pick, depth + 1) for _ in range(pick.randrange(5))]
    return {text(pick, 3) + str(n): value(pick, depth + 1) for n in range(pick.randrange(5))}


def field(pick: random.Random) -> bytes:
    kind, size = pick.randrange(5), pick.randrange(600)
    if kind == 0:
        return pick.randbytes(size)
    if kind == 1:
        return text(pick, size).encode()
    if kind == 2:
        return b"[1, 2" + b" " * size
    indent = pick.choice([None, 0, 2])
    made = [value(pick) for _ in range(5)]
    return json.dumps(made, ensure_ascii=kind == 3, indent=indent).encode()


@KERNELS
def test_pieces_of_a_field_are_its_text(kernel: ModuleType) -> None:
    pick = random.Random(7)
    for _ in range(400):
        data = field(pick)
        for mode in MODES:
            expected, encoding = bytes_json(data, mode)
            shown = kernel.how_shown(data, mode)
            assert (None if shown == Shown.TEXT else Shown(shown).name.lower()) == encoding
            parts, at, in_string = [], 0, False
            while at < len(data):
                most = pick.randrange(16, 90)
                made, *place = kernel.text_piece(data, at, most, shown, in_string)
                assert kernel.text_piece(data, at, most, shown, in_string, True) == (None, *place)
                assert place[0] == len(made)
                _, at, in_string = place
                parts.append(made)
            assert b"".join(parts) == (expected if data else b"")


@KERNELS
def test_a_piece_of_bytes_that_are_no_text_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(ValueError, match="encoding"):
        kernel.text_piece(b"\xff" * 20, 0, 16, Shown.TEXT)


@KERNELS
@pytest.mark.parametrize(
    ("start", "most", "shown"), [(-1, 16, 0), (21, 16, 0), (0, 15, 0), (0, 16, 4)]
)
def test_a_piece_that_cannot_be_is_refused(
    kernel: ModuleType, start: int, most: int, shown: int
) -> None:
    with pytest.raises(ValueError, match="no such piece"):
        kernel.text_piece(bytes(20), start, most, shown)
