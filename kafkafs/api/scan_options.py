"""Options of a scan: one declaration for type checkers, for `help` and for the error of a wrong name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from engine.log.unmatched import did_you_mean
from kafkafs.api.moments import Moment
from kafkafs.api.reading import Corrupt, Isolation

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from engine.units import Offset
    from kafkafs.decode.searching.apart import Deleted
    from kafkafs.table.row_options import DecoderOf

Topics: TypeAlias = "str | Sequence[str] | Mapping[str, Sequence[int]]"
Bounds: TypeAlias = "tuple[Offset | None, Offset | None]"
Offsets: TypeAlias = "Bounds | Mapping[tuple[str, int], Bounds]"
Partitioner: TypeAlias = Literal["murmur2"] | Mapping[str, int]
Decode: TypeAlias = Literal["none", "json", "columns"]

Method = TypeVar("Method", bound=Callable[..., Any])


class ScanOptions(TypedDict, total=False):
    """Options of a scan, each of which may be left out.

    Attributes:
        columns: names of columns, in order; see `kafkafs.forms.arrow.arrow_columns.RECORD_FIELDS`.
        since, until: from the first record at or after `since` up to the first one at or after `until`, in offset
            order, as in the tree; `where` can bound timestamps exactly.
        offsets: (start, stop) of each partition, None for no bound, or a mapping (topic, partition) -> (start, stop).
        keys: wanted keys, bytes or text; None for the null key.
        partitioner: "murmur2" reads only the partitions to which Kafka's default partitioner sends the keys, with
            the number of partitions in the cluster's metadata; a mapping topic -> number of partitions states it.
            Records that another partitioner, or a smaller topic of the past, put elsewhere are then missing. By
            default all partitions are read.
        isolation: "read_committed" leaves out aborted records, and ends at the first open transaction.
        where: a `pyarrow.compute` expression over all columns.
        limit: most rows, the first ones.
        decode: "json" shows the keys and values that `ConsumerRecord.decoded` decodes as JSON, or a function does
            that returns the decoder of a topic, None for raw bytes. With "none" the columns `decodedKey` and
            `decodedValue` have that JSON as text, null where nothing is decoded, beside bytes that stay as they are.
            "columns" gives the keys and values of one topic the Arrow types of its newest Avro or Protobuf schemas,
            see `kafkafs.forms.arrow.typed.typed_columns`.
        on_corrupt: at damage "raise" an error, "skip" it, or yield a "row" with its facts in column `_corrupt`. A
            partition whose folder cannot be read is an error with "raise", else left out and among the source's
            problems.
        nanoseconds: count times of Protobuf in nanoseconds with `decode="columns"`, which hold the years 1677 to
            2262, and not in microseconds without the digits below.
        deleted: read what a broker set aside, too: .deleted, .swap and .cleaned files, and -delete, -stray and
            -future folders. Their records come last, without those that the log itself still holds at the same
            offset with the same timestamp, unless it is "all"; the column `leftover` names the file or folder.
        threads: number of threads; by default one for each core, at most 8.
    """

    columns: Sequence[str] | None
    since: Moment | None
    until: Moment | None
    offsets: Offsets | None
    keys: Iterable[bytes | str | None] | None
    partitioner: Partitioner | None
    isolation: Isolation
    where: pc.Expression | None
    limit: int | None
    decode: Decode | DecoderOf
    on_corrupt: Corrupt
    nanoseconds: bool
    deleted: Deleted
    threads: int | None


DEFAULTS: ScanOptions = {
    "columns": None,
    "since": None,
    "until": None,
    "offsets": None,
    "keys": None,
    "partitioner": None,
    "isolation": "read_uncommitted",
    "where": None,
    "limit": None,
    "decode": "none",
    "on_corrupt": "raise",
    "nanoseconds": False,
    "deleted": False,
    "threads": None,
}


def named_options(method: Method) -> Method:
    """Let a method with `**options: Unpack[ScanOptions]` show these names, and refuse others with the nearest one.

    `inspect.signature`, `help` and the completion of an editor or a notebook then have them.
    """
    from functools import wraps

    @wraps(method)
    def checked(*given: Any, **options: Any) -> Any:  # noqa: ANN401
        for name in options.keys() - known:
            hint = did_you_mean(name, sorted(known)) or f"; it has {', '.join(sorted(known))}"
            raise TypeError(f"{method.__name__} has no option {name!r}{hint}")
        return method(*given, **options)

    places = [
        Parameter(name, kind, default=default, annotation=annotation)
        for name, kind, default, annotation in _parameters(method)
    ]
    known = {each.name for each in places if each.name != "self"}
    checked.__signature__ = Signature(places, return_annotation=method.__annotations__["return"])  # type: ignore[attr-defined]
    return checked  # type: ignore[return-value]


def _parameters(method: Callable[..., Any]) -> list[tuple[str, Any, object, object]]:
    from inspect import signature

    found = [
        (each.name, each.kind, each.default, each.annotation)
        for each in signature(method).parameters.values()
        if each.kind is not Parameter.VAR_KEYWORD
    ]
    for name, default in DEFAULTS.items():
        annotation = ScanOptions.__annotations__[name]
        text = getattr(annotation, "__forward_arg__", annotation)
        found.append((name, Parameter.KEYWORD_ONLY, default, text))
    return found
