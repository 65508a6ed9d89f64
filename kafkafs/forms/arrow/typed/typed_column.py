"""A column of decoded keys or values, whatever the kind of their schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from engine.arrays import np, npt
from engine.lines.line_decoder import DecodedField
from kafkafs.forms.arrow.typed.column_tree import ColumnTree
from kafkafs.schemas.decoders.limits import MOST_COST, Purse
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.errors import UndecodableError, printable, said
from kafkafs.schemas.programs import extension
from kafkafs.schemas.topic_decoder import SameFrame

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

TOO_LARGE = f"it takes more than {MOST_COST} bytes"


class Made(NamedTuple):
    """What becomes of a decoded field.

    Attributes:
        value: what PyArrow takes.
        note: why it, or a part of it, does not fit.
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
    def value(self, field: DecodedField, purse: Purse) -> Any:  # noqa: ANN401
        """Return what PyArrow takes for a decoded field with a text; an exception says why it does not fit.

        Args:
            field: the field.
            purse: what the value may cost; takes notes on parts that do not fit.
        """

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
        purse = Purse()
        try:
            value = self.value(field, purse)
            cost = self.tree.items_cost(value)
            if cost > MOST_COST:
                raise UndecodableError(TOO_LARGE)
        except Exception as error:  # noqa: BLE001 - the one net around values of a column
            return Made(None, misfit(error), self.tree.weight)
        told = field.note or ""
        note = "; ".join(each for each in purse.notes if each not in told) or None
        return Made(value, note, self.tree.weight + cost)

    def array_of(self, made: Sequence[Made]) -> tuple[pa.Array, dict[int, str]]:
        """Return values as a column, and by place the notes on those that do not fit."""
        values = [each.value for each in made]
        notes = {place: each.note for place, each in enumerate(made) if each.note is not None}
        try:
            return pa.array(values, self.type), notes
        except Exception:  # noqa: BLE001
            self._drop_misfits(values, notes)
            return pa.array(values, self.type), notes

    def _drop_misfits(self, values: list[Any], notes: dict[int, str]) -> None:
        for place, value in enumerate(values):
            try:
                pa.array([value], self.type)
            except Exception as error:  # noqa: BLE001
                values[place] = None
                notes[place] = misfit(error)


def misfit(error: Exception | str) -> str:
    """Return the note on a value that does not fit."""
    if isinstance(error, UndecodableError):
        reason = error.reason
    else:
        reason = error if isinstance(error, str) else said(error)
    return printable(f"the value does not fit the column: {reason}"[:500])
