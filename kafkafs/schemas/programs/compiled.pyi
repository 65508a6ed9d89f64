"""The extension that runs programs of schemas."""

from collections.abc import Sequence
from typing import TypeAlias

from engine.arrays import np, npt
from engine.coding.layout import Buffer

class AvroProgram:
    """A program that reads values of an Avro schema: the steps, links and texts of `decoders.avro_program`.

    Args:
        purse: cost that each value may have (`decoders.limits`).

    Raises:
        ValueError: a step leads out of the program.
    """

    def __init__(self, steps: bytes, links: bytes, texts: bytes, purse: int) -> None: ...
    def json(self, payload: Buffer) -> tuple[bytes, int] | None:
        """Return the JSON of a value and the number of bytes behind it; None if it is refused."""

    def texts(
        self,
        arena: Buffer,
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        suffix: bytes,
        enough: int,
    ) -> tuple[bytes, npt.NDArray[np.int64]]:
        """Return the JSON of the first of many values, at least of one.

        Args:
            arena: bytes with all values.
            starts, sizes: of the values; a size of -1 is left out.
            suffix: is put behind each JSON.
            enough: stop once the text has so many bytes.

        Returns:
            the text, and an array (values read, 2) of the start and size of each in it; the size is -1 for one that is
            left out or refused, or that has bytes behind it.
        """

class ProtobufProgram:
    """A program that reads messages of a Protobuf type: the rows of `decoders.protobuf_program`.

    Args:
        types: the types, the one of the messages first.
        enums: the enums.
        purse: cost that each message may have (`decoders.limits`).

    Raises:
        ValueError: a field leads out of the program.
    """

    def __init__(self, types: Sequence[object], enums: Sequence[object], purse: int) -> None: ...
    def json(self, payload: Buffer) -> bytes | None:
        """Return the JSON of a message; None if it is refused."""

    def texts(
        self,
        arena: Buffer,
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        prefix: bytes,
        suffix: bytes,
        enough: int,
    ) -> tuple[bytes, npt.NDArray[np.int64]]:
        """Return the JSON of messages as `AvroProgram.texts` does; a message that does not begin with `prefix` is left out."""

def float_text(number: float, is_double: bool = True) -> bytes:
    """Return the JSON of a double, or of a float of 32 bits."""

def header_groups(
    arena: Buffer,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.integer],
    names: Sequence[bytes],
    most: int,
) -> tuple[npt.NDArray[np.int32], list[int]]:
    """Put records with the same values of some headers into groups.

    Args:
        arena, starts, sizes: the headers of each record, without their count; none where the size is not above 0.
        names: keys of the headers that count; up to 16.
        most: most groups, up to 64.

    Returns:
        the group of each record, -1 without such headers, and -2 for a group beyond the most or headers of more than
        about 500 bytes; and the first record of each group.
    """

def prefix_groups(
    arena: Buffer,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.integer],
    prefixes: Sequence[tuple[bytes, int]],
    most: int,
) -> tuple[npt.NDArray[np.int32], list[int]]:
    """Put values with the same first bytes into groups.

    Args:
        arena, starts, sizes: the values, as for `AvroProgram.texts`.
        prefixes: how values begin that have a group, and the size of their first bytes that count; up to 16.
        most: most groups, up to 64.

    Returns:
        the group of each value, -1 for no prefix and -2 for a group beyond the most; and the first value of each group.
    """

ColumnParts: TypeAlias = tuple[int, Buffer, Buffer, Buffer]
"""A finished column: its rows, and the buffers of its validity, data and offsets; empty where it has none."""

class ColumnShapes:
    """The shapes of a tree of columns.

    Args:
        shapes: a row of four int32 for each column, as `kcl_shape` of `c/columns.h` has them.

    Raises:
        ValueError: the columns are no tree.
    """

    def __init__(self, shapes: bytes) -> None: ...

class ColumnProgram:
    """A program that reads values into columns.

    Attributes:
        shapes: the shapes of the columns.
    """

    shapes: ColumnShapes

class AvroColumnProgram(ColumnProgram):
    """A program that reads values of an Avro schema into columns: the tables of `kafkafs.forms.arrow.typed.avro_program`.

    Args:
        shapes: the shapes of the columns.
        steps, links, texts: the tables.
        json: program of the steps that read JSON.
        root: the step that reads a value.
        purse: cost that each value may have (`decoders.limits`).

    Raises:
        ValueError: a step leads out of the program, or to a column of another form.
    """

    def __init__(
        self,
        shapes: ColumnShapes,
        steps: bytes,
        links: bytes,
        texts: bytes,
        json: AvroProgram,
        root: int,
        purse: int,
    ) -> None: ...

class ProtobufColumnProgram(ColumnProgram):
    """A program that reads messages of a Protobuf type into columns.

    Args:
        shapes: the shapes of the columns.
        steps: the table of `kafkafs.forms.arrow.typed.protobuf_program`.
        messages: the program of the type.
        purse: cost of the JSON that each message may have (`decoders.limits`).

    Raises:
        ValueError: a step leads out of the program, or to a column of another form.
    """

    def __init__(
        self, shapes: ColumnShapes, steps: bytes, messages: ProtobufProgram, purse: int
    ) -> None: ...

def read_columns(
    shapes: ColumnShapes,
    programs: Sequence[ColumnProgram],
    which: npt.NDArray[np.int32],
    arena: Buffer,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    purse: int,
    enough: int,
) -> tuple[list[ColumnParts], npt.NDArray[np.uint8]]:
    """Read the first of many values into columns, at least one.

    Args:
        shapes: the shapes of the columns.
        programs: up to 64 programs for them.
        which: the program of each value; below 0 for null.
        arena, starts, sizes: the values, as for `AvroProgram.texts`; a size of -1 is null.
        purse: bytes that the items of lists in a value may take.
        enough: stop once the columns have about so many bytes.

    Returns:
        the parts of each column, and the state of each value: 0 is read, 1 is null, 2 is refused and null, 3 takes more
        than the purse and is null.
    """
