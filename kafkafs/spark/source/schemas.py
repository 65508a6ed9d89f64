"""The schemas that a query decodes with: read in the driver, and passed to tasks with the reader."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import StructType

from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.known_schemas import KnownSchemas
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import DECODED
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.options.source_paths import open_paths


def with_schemas(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Return the options with the schemas as of now; unchanged if a query asks for no decoded column.

    Raises:
        OptionError: a path of `schemas` has no schemas, or a wildcard of the paths matches nothing.
        SourceError: a path is not Kafka's.
    """
    if not options.decode or DECODED.keys().isdisjoint(schema.names):
        return options
    source = open_paths(options.paths)
    try:
        return replace(options, decoder_of=KnownSchemas(source, options.schemas).fixed())
    except SchemaFileError as error:
        raise OptionError(f"'schemas': {error}") from error
    finally:
        source.close()
