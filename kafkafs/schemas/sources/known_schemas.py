"""The schemas that a source's record lines are decoded with: those of its registry's topic, of files, or none."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.lines.line_decoder import LineDecoder
from engine.lines.record_line import internal_decoder
from engine.log.log_directory import LogSource
from kafkafs.schemas.topic_type import TopicType, type_by_name

if TYPE_CHECKING:
    from kafkafs.schemas.decoders.cache import DecoderCache
    from kafkafs.schemas.sources.fixed_schemas import FixedSchemas
    from kafkafs.schemas.sources.source_schemas import SourceSchemas
    from kafkafs.schemas.store import SchemaStore

AUTO = "auto"
NONE = "none"

_FRESH_SECONDS = 1.0
_TOPIC = "_schemas-"
"""How the names of the registry's partitions begin; here, so that a source without it imports nothing for it."""


class KnownSchemas:
    """Decoders of a source's topics. Thread-safe.

    The registry's topic is read when the first record asks for a schema, and again, at most once a second, when
    a record asks for one that is not known. Whether the source has that topic is looked up once.

    Args:
        source: the source; None without one.
        chosen: "auto" for the registry's topic of the source, "none", or paths of log dirs, files or directories
            of schemas.

    Raises:
        SourceError: a path is missing, or has neither files of Kafka nor schemas.
        SchemaFileError: a file of schemas breaks its format.
        OSError: a path cannot be read.
    """

    def __init__(self, source: LogSource | None, chosen: Sequence[str] = (AUTO,)) -> None:
        self._source = source
        self._lock = threading.RLock()
        self._has_auto = AUTO in chosen
        self._has_types = NONE not in chosen
        self._given: SchemaStore | None = None
        self._of_source: SourceSchemas | None = None
        self._store: SchemaStore | None = None
        self._parts: list[SchemaStore] = []
        self._read_at = 0.0
        self._decoders: DecoderCache | None = None
        self._by_topic: dict[str, LineDecoder] = {}
        paths = [path for path in chosen if path not in (AUTO, NONE)]
        if paths:
            from kafkafs.schemas.sources.opened import open_schemas

            self._given = open_schemas(paths)

    def decoder(self, topic: str) -> LineDecoder | None:
        """Return the decoder of a topic's records, also of Kafka's own; None if there are no schemas."""
        own = internal_decoder(topic)
        if own is not None:
            return own
        if self._given is None and not self._has_topic() and not self._is_typed(topic):
            return None
        with self._lock:
            known = self._by_topic.get(topic)
            if known is None:
                known = self._by_topic[topic] = self._made(topic)
            return known

    def store(self) -> SchemaStore:
        """Return the schemas as of now, or of up to a second ago.

        Raises:
            OSError: the folders of the source cannot be listed.
        """
        with self._lock:
            now = time.monotonic()
            if self._store is None or now - self._read_at > _FRESH_SECONDS:
                self._store = self._read()
                self._read_at = time.monotonic()
            return self._store

    def fixed(self) -> FixedSchemas:
        """Return decoders with the schemas as of now; raises as `store`."""
        from kafkafs.schemas.sources.fixed_schemas import FixedSchemas

        has_some = self._given is not None or self._has_topic() or self._has_typed()
        return FixedSchemas(self.store() if has_some else None, self._unnamed())

    def source_store(self) -> SchemaStore:
        """Return the schemas in the registry's topic of the source as of now, whatever is chosen to decode with.

        Raises:
            OSError: the folders of the source cannot be listed.
        """
        # Imported here: most sources have no schemas.
        from kafkafs.schemas.sources.source_schemas import SourceSchemas
        from kafkafs.schemas.store import SchemaStore

        if self._source is None:
            return SchemaStore.union(())
        with self._lock:
            if self._of_source is None:
                self._of_source = SourceSchemas(self._source)
        return self._of_source.store()

    def _has_topic(self) -> bool:
        if self._source is None or not self._has_auto:
            return False
        names = self._source.partitions()
        if f"{_TOPIC}0" not in names and not any(name.startswith(_TOPIC) for name in names):
            self._has_auto = False
        return self._has_auto

    def key_type(self, topic: str) -> TopicType | None:
        """Return the type of a topic's keys that a mapping or the topic's name tells; None without one."""
        if self._given is not None:
            return self._given.type_of(topic, is_key=True)
        return type_by_name(topic) if self._has_types else None

    def _is_typed(self, topic: str) -> bool:
        return self._has_types and type_by_name(topic) is not None

    def _has_typed(self) -> bool:
        """Return whether the name of a topic of the source tells its type."""
        logs = () if self._source is None else self._source.partitions().values()
        return any(self._is_typed(log.topic_partition.topic) for log in logs)

    def _made(self, topic: str) -> LineDecoder:
        # Imported here: most sources have no schemas.
        from kafkafs.schemas.decoders.cache import DecoderCache
        from kafkafs.schemas.store import SchemaStore
        from kafkafs.schemas.topic_decoder import TopicSchemas

        if self._decoders is None:
            self._decoders = DecoderCache()
        given = SchemaStore() if self._given is None else self._given
        return TopicSchemas(
            topic,
            self.store,
            self._decoders,
            is_mapped=given.may_be_bare(topic),
            is_named=topic not in self._unnamed(),
            types=given.types(topic),
        )

    def _unnamed(self) -> frozenset[str]:
        """Return the names of folders and files that tell no topic."""
        logs = () if self._source is None else self._source.partitions().values()
        return frozenset(log.topic_partition.topic for log in logs if not log.is_named)

    def _read(self) -> SchemaStore:
        from kafkafs.schemas.store import SchemaStore

        stores = [] if self._given is None else [self._given]
        if self._has_topic():
            stores.append(self.source_store())
        if self._store is None or stores != self._parts:
            self._parts = stores
            return SchemaStore.union(stores)
        return self._store
