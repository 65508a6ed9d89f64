"""Decoders by schema, made at first use; the least recently used are dropped."""

from __future__ import annotations

import threading
from collections import OrderedDict

from kafkafs.schemas.decoders.value_decoder import ValueDecoder
from kafkafs.schemas.errors import UndecodableError, undecodable
from kafkafs.schemas.schema import Schema, SchemaKind
from kafkafs.schemas.store import SchemaStore

MOST_DECODERS = 512


class DecoderCache:
    """Decoders of schemas. Thread-safe.

    Args:
        most: number of decoders that are kept.
    """

    def __init__(self, most: int = MOST_DECODERS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[Schema, ValueDecoder | UndecodableError] = OrderedDict()

    def decoder(self, schema: Schema, store: SchemaStore) -> ValueDecoder:
        """Return the decoder of a schema.

        Args:
            schema: the schema.
            store: where the schemas are that it refers to.

        Raises:
            UndecodableError: the schema does not compile, a reference is missing, or a package.
        """
        with self._lock:
            found = self._made.get(schema)
            if found is not None:
                self._made.move_to_end(schema)
        if found is None:
            try:
                found = make_decoder(schema, store)
            except UndecodableError as error:
                found = undecodable(error, "the schema")
            with self._lock:
                self._made[schema] = found
                while len(self._made) > self._most:
                    self._made.popitem(last=False)
        if isinstance(found, UndecodableError):
            raise UndecodableError(found.reason, found.position)
        return found


def make_decoder(schema: Schema, store: SchemaStore) -> ValueDecoder:
    """Return a new decoder of a schema; raises as `DecoderCache.decoder`."""
    try:
        return _made(schema, store)
    except Exception as error:
        raise undecodable(error, "the schema") from error


def _made(schema: Schema, store: SchemaStore) -> ValueDecoder:
    if schema.is_encrypted:
        raise UndecodableError("the schema is encrypted with a key of the registry")
    if schema.kind is SchemaKind.JSON_SCHEMA:
        from kafkafs.schemas.decoders.json_schema import JsonSchemaDecoder

        return JsonSchemaDecoder()
    references = store.resolved(schema) if schema.references else ()
    # Imported here: a source may have no schema of the kind.
    if schema.kind is SchemaKind.AVRO:
        from kafkafs.schemas.decoders.avro import AvroDecoder

        return AvroDecoder(schema.text, [each.text for _, each in references])
    from kafkafs.schemas.decoders.protobuf import ProtobufDecoder

    return ProtobufDecoder(schema.text, [(name, each.text) for name, each in references])
