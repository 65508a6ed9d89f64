"""Decoders of topics with the schemas of one moment, which other processes can be given."""

from __future__ import annotations

from engine.lines.line_decoder import LineDecoder
from engine.lines.record_line import internal_decoder
from kafkafs.schemas.decoders.cache import DecoderCache
from kafkafs.schemas.store import SchemaStore
from kafkafs.schemas.topic_decoder import TopicSchemas
from kafkafs.schemas.topic_type import TopicType


class FixedSchemas:
    """Decoders of topics, Kafka's own included. Thread-safe, picklable.

    Args:
        store: the schemas; None where none are known, not even that there are none.
        unnamed: names of folders and files that tell no topic.
    """

    def __init__(self, store: SchemaStore | None, unnamed: frozenset[str] = frozenset()) -> None:
        self.store = store
        self._unnamed = unnamed
        self._decoders = DecoderCache()
        self._by_topic: dict[str, LineDecoder] = {}

    def __reduce__(self) -> tuple[type[FixedSchemas], tuple[SchemaStore | None, frozenset[str]]]:
        return FixedSchemas, (self.store, self._unnamed)

    def decoder(self, topic: str) -> LineDecoder | None:
        """Return the decoder of a topic's keys and values; None if they are shown by their bytes."""
        found = internal_decoder(topic) or self._by_topic.get(topic)
        if found is None and self.store is not None:
            store = self.store
            is_mapped = store.may_be_bare(topic)
            found = TopicSchemas(
                topic,
                lambda: store,
                self._decoders,
                is_mapped=is_mapped,
                is_named=topic not in self._unnamed,
                types=store.types(topic),
            )
            self._by_topic[topic] = found
        return found

    def key_type(self, topic: str) -> TopicType | None:
        """Return the type of a topic's keys; None without one."""
        return None if self.store is None else self.store.type_of(topic, is_key=True)
