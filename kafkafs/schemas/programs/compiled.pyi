"""The extension that runs programs of schemas."""

from collections.abc import Iterable, Sequence

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

def holding(
    arena: Buffer,
    starts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.integer],
    needles: Iterable[bytes],
) -> npt.NDArray[np.uint8]:
    """Return for each of some pieces of a buffer whether it holds one of the needles: 1 or 0."""

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
