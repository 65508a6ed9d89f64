"""What Kafka's PropertiesUtilsTest asks of writing."""

from __future__ import annotations

import pytest

from engine.checkpoint.properties_file import parse_properties
from engine.writing.checkpoint.meta_properties_copier import write_properties


@pytest.mark.conformance("PropertiesUtilsTest.testWritePropertiesFile")
def test_write_properties_file(tmp_path):
    properties = {"abc": "123", "def": "456"}
    (tmp_path / "file").write_bytes(b"ghi=789\n")
    write_properties(tmp_path / "file", properties)
    assert parse_properties((tmp_path / "file").read_bytes()) == properties
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
