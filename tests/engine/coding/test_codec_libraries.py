"""The packages that know the codecs: loaded where there are, None where not."""

import zlib

from engine.coding import codec_libraries


def test_a_package_that_is_missing_is_none():
    assert codec_libraries._optional("no_such_package_anywhere") is None
    assert codec_libraries._optional("zlib") is zlib


def test_gzip_always_has_a_library():
    assert codec_libraries.inflater.decompressobj(31).eof is False
