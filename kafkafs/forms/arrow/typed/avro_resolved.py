"""The JSON of values that a column shows as text, with the names, symbols and defaults of the column's schema.

A record inside of itself, a union of several types and types that are nested too deeply are such text. Values come in the
JSON form of `kafkafs.schemas.decoders`, and stay in it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from kafkafs.forms.arrow.typed.avro_rules import (
    Fit,
    check_scalar,
    enum_symbols,
    not_read,
    record_sources,
    wide,
)
from kafkafs.schemas.decoders.avro_logical import number_form
from kafkafs.schemas.decoders.avro_reader import bytes_form
from kafkafs.schemas.decoders.avro_schema import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    Logical,
)
from kafkafs.schemas.errors import UndecodableError

_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""Texts of floats that JSON has no number for."""


def resolved_json(writer: AvroType, reader: AvroType) -> Fit | None:
    """Return the function from the JSON of a writer's values to that of a reader's; None if they stay as they are.

    Raises:
        UndecodableError: no value of the writer's schema has the reader's type.
    """
    return None if is_same_form(writer, reader) else _Resolution().fit(writer, reader)


def is_same_form(writer: AvroType, reader: AvroType) -> bool:
    """Return whether the JSON of a writer's values is that of a reader's."""
    return _is_same(writer, reader, set())


def _is_same(writer: AvroType, reader: AvroType, seen: set[tuple[int, int]]) -> bool:
    if writer is reader:
        return True
    if isinstance(writer, AvroUnion):
        return all(_is_same(each, reader, seen) for each in writer.branches)
    if isinstance(reader, AvroUnion):
        return any(_is_same(writer, each, seen) for each in reader.branches)
    if isinstance(writer, AvroRecord) and isinstance(reader, AvroRecord):
        pair = id(writer), id(reader)
        if pair in seen:
            return True
        seen.add(pair)
        return len(writer.fields) == len(reader.fields) and all(
            name == other and _is_same(kind, other_kind, seen)
            for (name, kind), (other, other_kind) in zip(writer.fields, reader.fields, strict=True)
        )
    if isinstance(writer, AvroArray) and isinstance(reader, AvroArray):
        return _is_same(writer.items, reader.items, seen)
    if isinstance(writer, AvroMap) and isinstance(reader, AvroMap):
        return _is_same(writer.values, reader.values, seen)
    if isinstance(writer, AvroEnum) and isinstance(reader, AvroEnum):
        return all(name == shown for name, shown in enum_symbols(writer, reader).items())
    if isinstance(writer, AvroFixed) and isinstance(reader, AvroFixed):
        return (writer.size, writer.logical, writer.scale) == (
            reader.size, reader.logical, reader.scale,
        )  # fmt: skip
    if isinstance(writer, AvroPrimitive) and isinstance(reader, AvroPrimitive):
        is_number = (writer.name, reader.name) in (("int", "long"), (reader.name, writer.name))
        return is_number and (writer.logical, writer.scale) == (reader.logical, reader.scale)
    return False


class _Resolution:
    """Functions for pairs of types; a pair of records has one, which a recursive schema reaches again."""

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], Fit] = {}

    def fit(self, writer: AvroType, reader: AvroType) -> Fit:
        """Return the function for values of a pair. Raises UndecodableError."""
        if isinstance(writer, AvroUnion):
            return self._of_union(writer, reader)
        if isinstance(reader, AvroUnion):
            return self._as_union(writer, reader)
        if isinstance(reader, AvroRecord) and isinstance(writer, AvroRecord):
            return self._record(writer, reader)
        if isinstance(reader, AvroArray) and isinstance(writer, AvroArray):
            item = self.fit(writer.items, reader.items)
            return lambda value: [item(each) for each in value]
        if isinstance(reader, AvroMap) and isinstance(writer, AvroMap):
            fit = self.fit(writer.values, reader.values)
            return lambda value: {name: fit(each) for name, each in value.items()}
        if isinstance(reader, AvroEnum) and isinstance(writer, AvroEnum):
            return enum_symbols(writer, reader).__getitem__
        check_scalar(writer, reader)
        assert isinstance(writer, AvroPrimitive | AvroFixed)
        assert isinstance(reader, AvroPrimitive | AvroFixed)
        return _scalar(writer, reader)

    def _of_union(self, writer: AvroUnion, reader: AvroType) -> Fit:
        """Return the function for values of a union, whose branch their JSON tells; one branch may have no other type."""
        fits: list[tuple[AvroType, Fit | UndecodableError]] = []
        for branch in writer.branches:
            try:
                fits.append((branch, self.fit(branch, reader)))
            except UndecodableError as error:
                fits.append((branch, error))

        def read(value: Any) -> Any:  # noqa: ANN401
            for branch, fit in fits:
                if _is_of(value, branch):
                    if isinstance(fit, UndecodableError):
                        raise UndecodableError(fit.reason)
                    return fit(value)
            raise UndecodableError("a value is of no branch of its union")

        return read

    def _as_union(self, writer: AvroType, reader: AvroUnion) -> Fit:
        """Return the function for values that the first branch takes which is like them, else the first that can."""
        like = [each for each in reader.branches if is_same_form(writer, each)]
        named = [each for each in reader.branches if _name(each) == _name(writer) is not None]
        for branch in (*like, *named, *reader.branches):
            try:
                return self.fit(writer, branch)
            except UndecodableError:
                continue
        raise not_read(writer, reader)

    def _record(self, writer: AvroRecord, reader: AvroRecord) -> Fit:
        pair = id(writer), id(reader)
        known = self._records.get(pair)
        if known is not None:
            return known
        plan: list[tuple[str, str | None, Any]] = []

        def read(value: Any) -> Any:  # noqa: ANN401
            return {
                name: made if source is None else made(value[source]) for name, source, made in plan
            }

        self._records[pair] = read
        kinds = dict(writer.fields)
        try:
            for (name, kind), source in zip(
                reader.fields, record_sources(writer, reader), strict=True
            ):
                made = (
                    json_default(kind, reader.defaults[name])
                    if source is None
                    else self.fit(kinds[source], kind)
                )
                plan.append((name, source, made))
        except UndecodableError:
            del self._records[pair]
            raise
        return read


def _scalar(writer: AvroPrimitive | AvroFixed, reader: AvroPrimitive | AvroFixed) -> Fit:
    if writer.logical is not reader.logical:  # numbers and dates or times; a UUID is its text
        form = number_form(reader.logical)
        return _same if form is None else form
    if writer.name == reader.name or writer.logical is not None:
        return _same
    if isinstance(reader, AvroFixed) or reader.name == "long":
        return _same
    if reader.name in ("float", "double"):
        return wide if writer.name == "float" else float
    if reader.name == "bytes":
        return lambda text: b64encode(text.encode()).decode()
    return lambda text: b64decode(text).decode()


def _same(value: Any) -> Any:  # noqa: ANN401
    return value


def _name(schema: AvroType) -> str | None:
    """Return the name of a type, without its namespace; None for one without a name."""
    if isinstance(schema, AvroArray | AvroMap | AvroUnion):
        return None
    return schema.name.rpartition(".")[2]


def _is_of(value: Any, branch: AvroType) -> bool:  # noqa: ANN401
    """Return whether JSON has the form of a branch's values."""
    if isinstance(branch, AvroRecord):
        return isinstance(value, dict) and list(value) == [name for name, _ in branch.fields]
    if isinstance(branch, AvroMap):
        return isinstance(value, dict)
    if isinstance(branch, AvroArray):
        return isinstance(value, list)
    if isinstance(branch, AvroEnum):
        return isinstance(value, str) and value in branch.symbols
    if isinstance(branch, AvroPrimitive) and branch.name in ("null", "boolean"):
        return value is None if branch.name == "null" else isinstance(value, bool)
    if isinstance(branch, AvroUnion):  # a union has none inside
        return False
    kind = branch.name if isinstance(branch, AvroPrimitive) else "fixed"
    is_real = kind in ("float", "double")
    if isinstance(value, dict):
        return branch.logical is Logical.DURATION
    if isinstance(value, str):
        if is_real:
            return value in _NO_NUMBERS
        return kind not in ("int", "long") or branch.logical is not None
    is_whole = kind in ("int", "long") and isinstance(value, int)
    return not isinstance(value, bool) and isinstance(value, int | float) and (is_real or is_whole)


def json_default(schema: AvroType, value: Any) -> Any:  # noqa: ANN401
    """Return the JSON form of a default, which has the form of a schema's JSON: bytes are Latin-1.

    Raises:
        UndecodableError: it is of no branch of its union.
    """
    if isinstance(schema, AvroUnion):
        for branch in schema.branches:
            if _is_default(value, branch):
                return json_default(branch, value)
        raise UndecodableError("a default is of no branch of its union")
    if isinstance(schema, AvroRecord):
        given = schema.defaults | value
        return {name: json_default(kind, given[name]) for name, kind in schema.fields}
    if isinstance(schema, AvroArray):
        return [json_default(schema.items, each) for each in value]
    if isinstance(schema, AvroMap):
        return {name: json_default(schema.values, each) for name, each in value.items()}
    if isinstance(schema, AvroFixed) or (
        isinstance(schema, AvroPrimitive) and schema.name == "bytes"
    ):
        return bytes_form(schema.logical, schema.scale)(value.encode("latin-1"))
    form = number_form(schema.logical) if isinstance(schema, AvroPrimitive) else None
    return value if form is None else form(value)


def _is_default(value: Any, branch: AvroType) -> bool:  # noqa: ANN401
    if isinstance(branch, AvroRecord | AvroMap):
        return isinstance(value, dict)
    if isinstance(branch, AvroPrimitive) and branch.name in ("int", "long", "float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(branch, AvroFixed):
        return isinstance(value, str)
    return _is_of(value, branch) and not (
        isinstance(value, dict) and not isinstance(branch, AvroRecord | AvroMap)
    )
