"""The schemas at a path: log dirs with a registry's topic, or files of schemas."""

from __future__ import annotations

import os
from collections.abc import Sequence

from engine.errors import SourceError
from engine.log.log_directory import open_source
from engine.replay.partition_records import Progress, no_progress
from engine.replicas.cluster_source import open_cluster
from kafkafs.schemas.catalog import CATALOG
from kafkafs.schemas.files.schema_files import is_schema_file, read_schema_files
from kafkafs.schemas.registry.registry_records import SCHEMAS_TOPIC
from kafkafs.schemas.sources.source_schemas import SourceSchemas
from kafkafs.schemas.store import SchemaStore


def open_schemas(
    paths: Sequence[str], topic: str = SCHEMAS_TOPIC, progress: Progress = no_progress
) -> SchemaStore:
    """Return the schemas of some paths as one store.

    Args:
        paths: log dirs, partitions of the registry's topic, their .log files; files of schemas, directories of these.
            The log dirs among them are one source.
        topic: the registry's topic in log dirs.
        progress: called with the number of bytes read.

    Raises:
        SourceError: a path is missing, or has neither files of Kafka nor schemas.
        SchemaFileError: a file is no file of schemas, or a mapping breaks its format.
        OSError: a path cannot be read.
    """
    log_dirs = [path for path in paths if is_log_source(path)]
    stores = []
    if log_dirs:
        source = open_cluster(log_dirs)
        try:
            stores.append(SourceSchemas(source, topic, progress).store())
        finally:
            source.close()
    stores += [read_schema_files(path) for path in paths if path not in log_dirs]
    return SchemaStore.union(stores)


def is_log_source(path: str) -> bool:
    """Return whether a path is to be opened as log dirs; if not, it has files of schemas.

    Raises:
        SourceError: a directory has neither.
    """
    if not os.path.isdir(path):
        return not is_schema_file(path)
    if os.path.exists(os.path.join(path, CATALOG)):
        return False
    try:
        open_source(path).close()
    except SourceError:
        found = read_schema_files(path)
        if len(found) or found.mapped:
            return False
        raise
    return True
