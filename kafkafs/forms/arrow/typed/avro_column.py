"""Columns of values with Avro schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from engine.arrays import np
from engine.lines.line_decoder import DecodedField
from kafkafs.forms.arrow.typed.avro_program import column_program
from kafkafs.forms.arrow.typed.avro_rules import Fit
from kafkafs.forms.arrow.typed.avro_types import arrow_type, fit_of
from kafkafs.forms.arrow.typed.typed_column import Read, TypedColumn
from kafkafs.schemas.decoders.avro import AvroDecoder
from kafkafs.schemas.decoders.avro_schema import AvroType
from kafkafs.schemas.decoders.limits import Purse
from kafkafs.schemas.decoders.value_decoder import Payloads
from kafkafs.schemas.errors import UndecodableError, undecodable
from kafkafs.schemas.topic_decoder import SameFrame

if TYPE_CHECKING:
    from kafkafs.schemas.programs import compiled

_MOST_WRITERS = 512


class AvroColumn(TypedColumn):
    """Column of values of an Avro schema; values of other schemas are read by Avro's rules of resolution.

    Args:
        schema: the schema.

    Raises:
        ValueError: the schema has more types than a column may have.
    """

    def __init__(self, schema: AvroType) -> None:
        super().__init__(arrow_type(schema))
        self._schema = schema
        self._fits: dict[AvroDecoder, Fit | str] = {}
        self._programs: dict[AvroDecoder, compiled.AvroColumnProgram | None] = {}

    def reads(self, frame: SameFrame, payloads: Payloads) -> Iterator[Read]:
        yield Read(np.arange(len(frame.rows)), 0, self.program(frame.decoder))

    def program(self, decoder: object) -> compiled.AvroColumnProgram | None:
        """Return the program for payloads of a decoder; None without one. The extension must be there."""
        if not isinstance(decoder, AvroDecoder):
            return None
        if decoder not in self._programs:
            if len(self._programs) >= _MOST_WRITERS:
                return None
            try:
                made = column_program(decoder.schema, self._schema, self.tree, self.shapes)
            except Exception:  # noqa: BLE001 - hostile schemas
                made = None  # each value says why it does not fit
            self._programs[decoder] = made
        return self._programs[decoder]

    def value(self, field: DecodedField, purse: Purse) -> Any:  # noqa: ANN401
        assert field.text is not None
        fit = self._fit(field.made_by)
        if isinstance(fit, str):
            raise UndecodableError(fit)
        return fit(json.loads(field.text))

    def _fit(self, decoder: object) -> Fit | str:
        """Return how values of a decoder are read; the reason if they cannot be."""
        if not isinstance(decoder, AvroDecoder):
            return "it has no Avro schema of its own"
        found = self._fits.get(decoder)
        if found is None:
            try:
                found = fit_of(decoder.schema, self._schema)
            except Exception as error:  # noqa: BLE001 - hostile schemas
                found = undecodable(error, "the schema").reason
            if len(self._fits) < _MOST_WRITERS:
                self._fits[decoder] = found
        return found
