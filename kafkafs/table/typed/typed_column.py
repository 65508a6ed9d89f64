"""A column of decoded keys or values, whatever the kind of their schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from engine.arrays import np, npt
from engine.lines.line_decoder import DecodedField
from kafkafs.schemas.decoders.limits import MOST_COST
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.programs import extension
from kafkafs.schemas.topic_decoder import SameFrame
from kafkafs.table.typed.column_tree import ColumnTree

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

MISFITS = (
    UndecodableError, ValueError, TypeError, KeyError, AttributeError, OverflowError, ArithmeticError, pa.ArrowException,
)  # fmt: skip
"""What says that a value has another type."""

TOO_LARGE = f"it takes more than {MOST_COST} bytes"


class Made(NamedTuple):
    """What becomes of a decoded field.

    Attributes:
        value: what PyArrow takes.
        note: why it does not fit.
        cost: bytes that it takes in the column, besides texts.
    """

    value: Any
    note: str | None
    cost: int


class Read(NamedTuple):
    """Payloads that a program reads.

    Attributes:
        rows: which of the payloads of a frame.
        skipped: bytes in front of each that the program does not read.
        program: the program; None if each is to be read alone.
    """

    rows: npt.NDArray[np.intp]
    skipped: int
    program: compiled.ColumnProgram | None


class TypedColumn(ABC):
    """Column of values of one type. Thread-safe.

    Args:
        kind: the Arrow type.

    Attributes:
        type: the Arrow type.
        tree: the column and those inside of it.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self.tree = ColumnTree(kind)
        self._shapes = None if extension is None else self.tree.shapes()

    @property
    def shapes(self) -> compiled.ColumnShapes:
        """The tree as programs take it; the extension must be there."""
        assert self._shapes is not None
        return self._shapes

    @abstractmethod
    def reads(self, frame: SameFrame, payloads: Payloads) -> Iterator[Read]:
        """Yield how the payloads of a frame are read; the extension must be there."""

    @abstractmethod
    def value(self, field: DecodedField) -> Any:  # noqa: ANN401
        """Return what PyArrow takes for a decoded field with a text. Raises one of MISFITS: it does not fit."""

    def array(self, fields: Iterable[DecodedField | None]) -> tuple[pa.Array, dict[int, str]]:
        """Return the values of decoded fields, and by place the notes on those that do not fit.

        Args:
            fields: decoded keys or values.
        """
        return self.array_of([self.made_of(field) for field in fields])

    def made_of(self, field: DecodedField | None) -> Made:
        """Return what becomes of a decoded field."""
        if field is None or field.text is None:
            return Made(None, None, self.tree.weight)
        try:
            value = self.value(field)
            cost = self.tree.items_cost(value)
            if cost > MOST_COST:
                raise UndecodableError(TOO_LARGE)
        except MISFITS as error:
            return Made(None, misfit(error), self.tree.weight)
        return Made(value, None, self.tree.weight + cost)

    def array_of(self, made: Sequence[Made]) -> tuple[pa.Array, dict[int, str]]:
        """Return values as a column, and by place the notes on those that do not fit."""
        values = [each.value for each in made]
        notes = {place: each.note for place, each in enumerate(made) if each.note is not None}
        try:
            return pa.array(values, self.type), notes
        except MISFITS:
            self._drop_misfits(values, notes)
            return pa.array(values, self.type), notes

    def _drop_misfits(self, values: list[Any], notes: dict[int, str]) -> None:
        for place, value in enumerate(values):
            try:
                pa.array([value], self.type)
            except MISFITS as error:
                values[place] = None
                notes[place] = misfit(error)


def misfit(error: BaseException | str) -> str:
    """Return the note on a value that does not fit."""
    reason = error.reason if isinstance(error, UndecodableError) else str(error)
    return f"the value does not fit the column: {reason}"[:500]
