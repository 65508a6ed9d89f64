"""Checksums and hashes against published values."""

import sys

import pytest

from engine.coding import checksums
from engine.coding.checksums import crc32, crc32c, murmur2, xxh32


def test_crc32_of_the_check_string():
    assert crc32(b"123456789") == 0xCBF43926


def test_crc32c_of_the_check_string_and_in_parts():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA


def test_crc32c_without_the_package_is_the_same(monkeypatch):
    monkeypatch.setitem(sys.modules, "crc32c", None)
    monkeypatch.setattr(checksums, "_castagnoli", checksums._first_castagnoli)
    test_crc32c_of_the_check_string_and_in_parts()
    assert checksums._castagnoli is checksums._castagnoli_by_table
    assert crc32c(memoryview(b"123456789")) == 0xE3069283


@pytest.mark.parametrize(
    ("data", "seed", "expected"),
    [
        (b"", 0, 0x02CC5D05),
        (b"a", 0, 0x550D7456),
        (b"abc", 0, 0x32D153FF),
        (b"Nobody inspects the spammish repetition", 0, 0xE2293B2F),
        (b"", 2654435761, 0x36B78AE7),
    ],
)
def test_xxh32_of_known_strings(data, seed, expected):
    assert xxh32(data, seed) == expected
    assert xxh32(memoryview(bytearray(data)), seed) == expected


def test_murmur2_of_each_tail_length_as_the_jvm_gives_it():
    expected = [
        275646681,
        -1993445489,
        126087238,
        -267702483,
        -1614185708,
        -1188365604,
        -918490292,
        -605210426,
        338742798,
    ]
    assert [murmur2(b"12345678"[:size]) for size in range(9)] == expected
