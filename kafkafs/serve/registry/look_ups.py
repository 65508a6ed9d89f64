"""What a registry that reads the topic finds: versions of subjects, schemas of ids, references, settings.

A version that is deleted for good is in no list; its id is answered all the same, since records may need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kafkafs.schemas.schema import DEFAULT_CONTEXT, JsonValue, Schema, in_context, split_subject
from kafkafs.schemas.store import SchemaStore
from kafkafs.serve.registry.entities import DEFAULT_CONFIG, DEFAULT_MODE, config
from kafkafs.serve.registry.errors import RegistryError, no_schema, no_subject, no_version

ALL_CONTEXTS = ":*:"
LATEST = -1
_GLOBAL_CONTEXT = ".__GLOBAL"


def normal(subject: str) -> str:
    """Return a subject without the name of the default context.

    Example:
        >>> normal(":.:orders-value"), normal(":.eu")
        ('orders-value', ':.eu:')
    """
    return in_context(*split_subject(subject))


class LookUps:
    """Look-ups in the schemas of one moment.

    Args:
        store: the schemas.
    """

    def __init__(self, store: SchemaStore) -> None:
        self.store = store

    def subjects(self, prefix: str, *, live: bool, deleted: bool) -> list[str]:
        """Return the subjects that have live versions, or only deleted ones, as chosen, sorted."""
        found: dict[str, bool] = {}
        for schema in self._with_prefix(prefix):
            name = schema.subject or ""
            found[name] = found.get(name, True) and schema.is_deleted
        return sorted(name for name, is_gone in found.items() if (deleted if is_gone else live))

    def schemas(self, prefix: str, *, deleted: bool) -> list[Schema]:
        """Return the versions of all subjects with a prefix."""
        return [each for each in self._with_prefix(prefix) if deleted or not each.is_deleted]

    def _with_prefix(self, prefix: str) -> Iterator[Schema]:
        """Yield the versions of the subjects with a prefix, in all contexts if it names all of them."""
        in_all = prefix.startswith(ALL_CONTEXTS)
        prefix = prefix.removeprefix(ALL_CONTEXTS) if in_all else normal(prefix)
        for schema in self.store.schemas:
            subject = schema.subject
            if subject is None or schema.id is None or schema.is_gone:
                continue
            shown = split_subject(subject)[1] if in_all else subject
            if shown.startswith(prefix):
                yield schema

    def versions(self, subject: str) -> list[Schema]:
        """Return the versions of a subject, those that are deleted softly too.

        Raises:
            RegistryError: there is no such subject.
        """
        found = [each for each in self.store.versions(subject) if not each.is_gone]
        if not found:
            raise no_subject(subject)
        return found

    def version(self, subject: str, version: int, *, deleted: bool) -> Schema:
        """Return a version of a subject, of the first context that has it if the subject names none.

        Raises:
            RegistryError: it is not there.
        """
        is_known = False
        for name in self._names(subject):
            versions = [each for each in self.store.versions(name) if not each.is_gone]
            is_known |= any(deleted or not each.is_deleted for each in versions)
            if version == LATEST:
                found = [each for each in versions if not each.is_deleted][-1:]
            else:
                found = [each for each in versions if each.version == version]
            if found and (deleted or not found[0].is_deleted):
                return found[0]
        raise no_version(version) if is_known else no_subject(subject)

    def _names(self, subject: str) -> list[str]:
        """Return the subjects of all contexts that a subject may mean."""
        if split_subject(subject)[0] != DEFAULT_CONTEXT:
            return [subject]
        return [in_context(context, subject) for context in self.contexts()]

    def by_id(self, id_: int, subject: str) -> Schema:
        """Return the schema of an id, in the context of a subject, or in the first one in which the subject has it.

        Raises:
            RegistryError: it is not there.
        """
        found = [
            (each.schema.is_gone, each.schema)
            for name in self._names(subject)
            for each in self.store.by_id(split_subject(name)[0], id_, subjects=(name,))
            if each.schema.subject == name
        ] if split_subject(subject)[1] else []  # fmt: skip
        context = split_subject(subject)[0]
        found += [(each.schema.is_gone, each.schema) for each in self.store.by_id(context, id_)]
        if not found:
            raise no_schema(id_)
        return min(found, key=lambda each: each[0])[1]

    def with_id(self, id_: int, subject: str, *, deleted: bool) -> list[Schema]:
        """Return the versions that have an id and its schema.

        Raises:
            RegistryError: no schema has the id.
        """
        schema = self.by_id(id_, subject)
        return [
            each
            for each in self.store.schemas
            if (each.id, each.context) == (id_, schema.context)
            and not each.is_gone
            and (deleted or not each.is_deleted)
        ]

    def referring(self, target: Schema, *, deleted: bool) -> list[int]:
        """Return the ids of the schemas that refer to one, sorted."""
        place = target.subject, target.version
        return sorted({
            each.id
            for each in self.store.schemas
            if each.id is not None and not each.is_gone and (deleted or not each.is_deleted)
            for name, version in ((ref.subject, ref.version) for ref in each.references)
            if (in_context(each.context, name), version) == place
        })  # fmt: skip

    def contexts(self) -> list[str]:
        """Return all contexts, the default one first."""
        return self.store.contexts

    def config(self, subject: str | None, *, in_scope: bool) -> dict[str, Any]:
        """Return the configuration of a subject, or of all of them.

        Raises:
            RegistryError: the subject has none of its own, and none in its scope is asked for.
        """
        own, of_all = self._setting("CONFIG", subject), self._setting("CONFIG", None)
        if own is not None:
            return config(own, of_all if in_scope else None)
        if subject is not None and not in_scope and not _is_global(subject):
            raise RegistryError(
                40408, f"Subject '{subject}' does not have subject-level compatibility configured"
            )
        found = self._in_scope("CONFIG", subject) if in_scope else None
        return DEFAULT_CONFIG if found is None else config(found)

    def mode(self, subject: str | None, *, in_scope: bool) -> str:
        """Return the mode of a subject, or of all of them; raises as `config`."""
        found = self._setting("MODE", subject)
        if found is None and subject is not None and not in_scope and not _is_global(subject):
            raise RegistryError(
                40409, f"Subject '{subject}' does not have subject-level mode configured"
            )
        if found is None and in_scope:
            found = self._in_scope("MODE", subject)
        return str((found or {}).get("mode") or DEFAULT_MODE)

    def _setting(self, keytype: str, subject: str | None) -> JsonValue:
        return self.store.settings.get((keytype, subject))

    def _in_scope(self, keytype: str, subject: str | None) -> JsonValue:
        context = split_subject(subject or "")[0]
        scopes: Iterable[str | None]
        scopes = (None if context == DEFAULT_CONTEXT else f":{context}:", f":{_GLOBAL_CONTEXT}:")
        found = (self._setting(keytype, scope) for scope in scopes)
        return next((each for each in found if each is not None), None)


def _is_global(subject: str) -> bool:
    return split_subject(subject)[0] == _GLOBAL_CONTEXT
