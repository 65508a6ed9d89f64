"""Zeros between data are found with few reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from engine.budgets import MiB
from engine.files.zeros import first_data

KiB = 1024


class CountedReads:
    """A file, and how many bytes were read of it."""

    def __init__(self, file: BinaryIO) -> None:
        self.fd = file.fileno()
        self.size = 0

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self.fd, size, position)
        self.size += len(data)
        return data


def test_a_hole_behind_a_few_bytes_is_passed_over_without_reading_into_it(tmp_path: Path) -> None:
    path = tmp_path / "holes"
    with path.open("wb") as file:
        for number in range(20):
            file.seek(number * 10 * MiB + 3)
            file.write(b"island")
    with path.open("rb") as file:
        counted, position = CountedReads(file), 0
        for number in range(20):
            position = first_data(counted.fd, counted.read_at, position, path.stat().st_size)
            assert position == number * 10 * MiB + 3
            position += len(b"island")
    assert counted.size <= 20 * 24 * KiB


@pytest.mark.parametrize("where", [0, 1, 4095, 4096, 5000, 3 * MiB + 17])
def test_the_first_byte_that_is_not_zero_is_found_without_holes_too(
    tmp_path: Path, where: int
) -> None:
    path = tmp_path / "zeros"
    path.write_bytes(bytes(where) + b"\1\0\1")
    with path.open("rb") as file:
        read_at = CountedReads(file).read_at
        assert first_data(-1, read_at, 0, where + 3) == where
        assert first_data(-1, read_at, where + 1, where + 2) == where + 2
        assert first_data(-1, read_at, 0, where) == where
