"""The schemas and the mask of a query: read in the driver, and passed to tasks with the reader."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.types import DataType, StructType

from engine.log.log_directory import LogSource
from kafkafs.masking.policy import MaskPolicy, MaskPolicyError, require_topics
from kafkafs.records.conditions.wanted_keys import KeyTextError, TopicKeys
from kafkafs.records.row_mask import RowMask
from kafkafs.schemas.errors import SchemaFileError
from kafkafs.schemas.sources.known_schemas import KnownSchemas
from kafkafs.spark.errors import OptionError
from kafkafs.spark.source.columns import DECODED
from kafkafs.spark.source.options.partition_choice import choose
from kafkafs.spark.source.options.read_options import ReadOptions
from kafkafs.spark.source.options.source_paths import open_paths


def with_schemas(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Return the options with the mask, and the schemas as of now as far as the query needs them.

    Raises:
        OptionError: a path of `schemas` has no schemas, a wildcard of the paths matches nothing, or the policy of the
            mask cannot be used, or hides keys that are looked for; or decode=columns has no types, or several topics.
        SourceError: a path is not Kafka's.
    """
    shows_decoded = options.decode and not DECODED.keys().isdisjoint(schema.names)
    shows_types = options.has_types and options.typed is None and shows_decoded
    policy = _policy(options)
    if not shows_decoded and policy is None and options.key is None:
        return options
    source = open_paths(options.paths, options.at)
    try:
        known = KnownSchemas(source, options.schemas).fixed()
        if policy is not None:
            require_topics(source)
            _check_keys(options, policy, source)
            options = replace(options, row_mask=RowMask(policy, known.decoder))
        if shows_types:
            # Imported here: other queries need no decoders of the driver's.
            from kafkafs.spark.source.typed_values import typed_values

            topic = _one_topic(options, source)
            options = replace(options, typed=typed_values(topic, known.store, schema))
        if options.key is not None:
            keys = TopicKeys([options.key], known)
            for topic in _topics(options, source):
                keys.of(topic)
            options = replace(options, keys=keys)
        return replace(options, decoder_of=known.decoder) if shows_decoded else options
    except MaskPolicyError as error:
        raise OptionError(f"'mask': {error}") from None
    except SchemaFileError as error:
        raise OptionError(f"'schemas': {error}") from error
    except KeyTextError as error:
        raise OptionError(f"'keyEquals': {error}") from None
    finally:
        source.close()


def types_of(options: ReadOptions) -> dict[str, DataType]:
    """Return the types of decoded columns that are not JSON, by the schemas as of now; raises as `with_schemas`."""
    if not options.has_types:
        return {}
    # Imported here: other queries need no decoders of the driver's.
    from kafkafs.spark.source.typed_values import shown_types, typed_values

    source = open_paths(options.paths, options.at)
    try:
        known = KnownSchemas(source, options.schemas).fixed()
        return shown_types(typed_values(_one_topic(options, source), known.store).types)
    except SchemaFileError as error:
        raise OptionError(f"'schemas': {error}") from error
    finally:
        source.close()


def _one_topic(options: ReadOptions, source: LogSource) -> str:
    topics = _topics(options, source)
    if len(topics) != 1:
        names = f" ({', '.join(topics[:3])}{', …' if len(topics) > 3 else ''})" if topics else ""
        raise OptionError(
            f"decode='columns' has the types of one topic, and these are {len(topics)}{names}: name it with 'subscribe'"
        )
    return topics[0]


def _topics(options: ReadOptions, source: LogSource) -> list[str]:
    chosen = choose(source.partitions(), options.choice, internal=options.internal)
    return sorted({partition.topic for partition in chosen})


def _policy(options: ReadOptions) -> MaskPolicy | None:
    if options.mask is None:
        return None
    if options.row_mask is not None:
        return options.row_mask.policy
    try:
        return MaskPolicy(options.mask)
    except MaskPolicyError as error:
        raise OptionError(f"'mask': {error}") from None


def _check_keys(options: ReadOptions, policy: MaskPolicy, source: LogSource) -> None:
    if options.key is None and options.key_pattern is None:
        return
    for log in source.partitions().values():
        topic = log.topic_partition.topic
        lines = policy.mask(topic)
        if lines is not None and lines.masks_keys:
            raise OptionError(
                f"keyEquals and keyPattern tell keys that the mask hides, such as those of {topic}: filter the frame"
            )
