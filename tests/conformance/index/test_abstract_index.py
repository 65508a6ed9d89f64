"""What Kafka's AbstractIndexTest asks of an index's map."""

from __future__ import annotations

import pytest

from engine.coding.layout import Buffer
from engine.disk.disk import DISK, Mapping
from engine.index.slot_search import Column
from engine.writing.index.writable_index import WritableIndex


class ByteIndex(WritableIndex[int]):
    """Entries of one byte."""

    entry_size = 1
    offset_column = Column(1, 0, False)

    @property
    def map(self) -> Mapping:
        return self._mapped.mapping

    def check(self) -> None:
        pass

    def _parse(self, buffer: Buffer, position: int) -> int:
        return buffer[position]

    @property
    def _none(self) -> int:
        return -1


@pytest.mark.conformance("AbstractIndexTest.testResizeInvokeUnmap")
@pytest.mark.parametrize("size", [80, 120])
def test_resize_invoke_unmap(tmp_path, size):
    index = ByteIndex(tmp_path / "test-index", 0, 100, True)
    old = index.map
    assert not old.is_closed
    assert old.size == 100
    assert index.resize(size)
    assert old.is_closed
    with pytest.raises(ValueError, match="is closed"):
        old.read(0, 1)
    assert index.map is not old
    assert not index.map.is_closed
    assert index.map.size == size == DISK.size(tmp_path / "test-index")
    index.close()
