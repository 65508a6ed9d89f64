"""Texts of the keys and values of some records, as they are decoded: by schema first, then one by one."""

from __future__ import annotations

from engine.arrays import np, npt
from kafkafs.schemas.decoders.value_decoder import PayloadTexts


class GrowingTexts:
    """Texts of the keys and values of some records.

    Attributes:
        places: as of FieldTexts.
        alone: array (records, 2): the keys and values that are decoded one by one.
        count: number of records that have their texts.
    """

    def __init__(self, count: int) -> None:
        self.places = np.full((count, 4), -1, np.int64)
        self.alone = np.zeros((count, 2), np.bool_)
        self.count = count
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes of all texts."""
        return self._size

    @property
    def text(self) -> bytes:
        """All texts."""
        return b"".join(self._parts)

    def add(self, field: int, rows: npt.NDArray[np.intp], made: PayloadTexts) -> None:
        """Add texts of the keys (field 0) or values (field 1) of some records."""
        done = rows[: len(made.places)]
        self.places[done, 2 * field] = made.places[:, 0] + self._size
        self.places[done, 2 * field + 1] = made.places[:, 1]
        self.alone[done[made.places[:, 1] < 0], field] = True
        if len(done) < len(rows):
            self.count = min(self.count, int(rows[len(done)]))
        self._append(made.text)

    def add_one(self, field: int, row: int, text: bytes) -> None:
        """Add the text of one key or value."""
        self.places[row, 2 * field : 2 * field + 2] = self._size, len(text)
        self._append(text)

    def _append(self, text: bytes) -> None:
        self._parts.append(text)
        self._size += len(text)
