"""Types of the decoded keys and values of each topic of an export, which its files keep when it goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkafs.export.errors import OptionError
from kafkafs.forms.arrow.typed.retyped import TypeOf
from kafkafs.forms.arrow.typed.typed_beside_bytes import TypedBesideBytes, Types, typed_as
from kafkafs.schemas.store import SchemaStore


@dataclass(frozen=True)
class TypedTopics:
    """The typed columns of topics.

    Attributes:
        columns: by topic; none of a topic to which no schema gives types.
        without: such topics, sorted.
    """

    columns: Mapping[str, TypedBesideBytes]
    without: list[str]

    @property
    def types(self) -> Mapping[str, Mapping[str, str]]:
        """The types by topic and column, as the ledger has them."""
        found = {topic: _texts(columns.types) for topic, columns in self.columns.items()}
        return found | {topic: {} for topic in self.without}


def typed_topics(
    topics: Collection[str],
    store: SchemaStore | None,
    before: Mapping[str, Mapping[str, str]],
    type_of: TypeOf,
) -> TypedTopics:
    """Return the columns of the newest schemas; of those that the files of a topic have already.

    Args:
        topics: names of the topics.
        store: the schemas; None without any.
        before: types in the files of earlier chunks, by topic.
        type_of: returns the type in which files have a column.

    Raises:
        OptionError: no schema gives types to any of the topics, or those of earlier files are not known any more.
    """
    found, without = {}, []
    for topic in sorted(topics):
        columns = None if store is None else _columns(topic, store, before.get(topic), type_of)
        if columns is not None:
            found[topic] = columns
        elif before.get(topic):
            raise _unknown(topic)
        else:
            without.append(topic)
    if not found and not before:
        raise OptionError(
            f"no schema gives types to keys or values of {', '.join(without[:3])}: leave out --decode columns, or"
            " name the schemas with --schemas"
        )
    return TypedTopics(found, without)


def _columns(
    topic: str, store: SchemaStore, before: Mapping[str, str] | None, type_of: TypeOf
) -> TypedBesideBytes | None:
    if before == {}:
        return None
    try:
        if before is None:
            return TypedBesideBytes(topic, store, type_of)
        return typed_as(topic, store, type_of, lambda types: _texts(types) == before)
    except ValueError:
        return None


def _unknown(topic: str) -> OptionError:
    return OptionError(
        f"the files of {topic} have the types of a schema that is not known any more: name it with --schemas, or"
        " export to another target"
    )


def _texts(types: Types) -> dict[str, str]:
    return {name: str(kind) for name, kind in types.items()}
