"""The optional package of the codecs: imported once, at its first use."""

import sys

import pytest

from engine.coding import codec_libraries


def test_the_package_is_looked_for_once(monkeypatch):
    monkeypatch.delitem(vars(codec_libraries), "cramjam", raising=False)
    found = codec_libraries.cramjam
    assert found.__name__ == "cramjam"
    assert vars(codec_libraries)["cramjam"] is found


def test_a_missing_package_is_an_import_error_each_time(monkeypatch):
    monkeypatch.delitem(vars(codec_libraries), "cramjam", raising=False)
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="cramjam"):
            codec_libraries.cramjam.lz4


def test_nothing_else_is_imported_on_demand():
    assert not hasattr(codec_libraries, "json")
