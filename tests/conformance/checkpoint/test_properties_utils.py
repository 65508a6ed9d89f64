"""What Kafka's PropertiesUtilsTest asks."""

from __future__ import annotations

import pytest

from engine.broker.checkpoint.meta_properties_copier import write_properties
from engine.checkpoint.properties_file import parse_properties, required_int
from engine.errors import CorruptCheckpointError


@pytest.mark.conformance("PropertiesUtilsTest.testReadPropertiesFile")
def test_read_properties_file() -> None:
    properties = parse_properties(b"a=1\nb=2\n#a comment\n\nc=3\nd=")
    assert properties == {"a": "1", "b": "2", "c": "3", "d": ""}


@pytest.mark.conformance("PropertiesUtilsTest.loadRequiredIntProp")
def test_load_required_int_prop() -> None:
    assert required_int({"foo.bar": "123"}, "foo.bar") == 123


@pytest.mark.conformance("PropertiesUtilsTest.loadMissingRequiredIntProp")
def test_load_missing_required_int_prop() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"no foo\.bar"):
        required_int({}, "foo.bar")


@pytest.mark.conformance("PropertiesUtilsTest.loadNonIntegerRequiredIntProp")
def test_load_non_integer_required_int_prop() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"foo\.bar is not a number"):
        required_int({"foo.bar": "b"}, "foo.bar")


@pytest.mark.conformance("PropertiesUtilsTest.testWritePropertiesFile")
def test_write_properties_file(tmp_path):
    properties = {"abc": "123", "def": "456"}
    (tmp_path / "file").write_bytes(b"ghi=789\n")
    write_properties(tmp_path / "file", properties)
    assert parse_properties((tmp_path / "file").read_bytes()) == properties
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
