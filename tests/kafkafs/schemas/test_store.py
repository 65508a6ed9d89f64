"""Look-ups in the store: by id as of a record, by GUID, by fingerprint, by topic, and the references of a schema."""

from pathlib import Path

import pytest

from engine.log.partition_choice import NamePattern
from kafkafs.schemas.errors import UndecodableError
from kafkafs.schemas.framing import Form, Framing, framings
from kafkafs.schemas.registry.collected import Change
from kafkafs.schemas.schema import Candidate, Origin, Reference, Schema, SchemaKind
from kafkafs.schemas.store import MOST_REFERENCES, SchemaStore
from kafkafs.schemas.topic_subjects import NEWEST_VERSION, Mapped
from tests.schema_records import LONG, NOW, STRING, schema_record, tombstone, written

LATER, MUCH_LATER = NOW + 1000, NOW + 2000


def texts(candidates: list[Candidate]) -> list[tuple[str, bool]]:
    return [(each.schema.text, each.is_of_time) for each in candidates]


@pytest.fixture
def reused(tmp_path: Path) -> SchemaStore:
    """A store whose id 7 was given again after a deletion."""
    return written(
        tmp_path,
        schema_record("orders-value", 1, 7),
        tombstone("orders-value", 1, LATER),
        schema_record("items-value", 1, 7, LONG, timestamp=MUCH_LATER),
    )


@pytest.mark.parametrize(
    ("at", "answer"),
    [
        (NOW, [(STRING, True), (LONG, False)]),
        (LATER - 1, [(STRING, True), (LONG, False)]),
        (LATER, [(STRING, False), (LONG, False)]),
        (MUCH_LATER - 1, [(LONG, False), (STRING, False)]),
        (MUCH_LATER, [(LONG, True), (STRING, False)]),
        (None, [(LONG, True), (STRING, False)]),
        (0, [(STRING, False), (LONG, False)]),
    ],
)
def test_an_id_that_was_given_again_is_told_by_the_records_time(
    reused: SchemaStore, at: int | None, answer: list[tuple[str, bool]]
) -> None:
    assert texts(reused.by_id(".", 7, at)) == answer


def test_the_subject_of_the_topic_counts_and_not_the_time(reused: SchemaStore) -> None:
    framing = Framing(Form.CONFLUENT, 5, id=7)
    found = reused.asked_for(framing, "orders", at=MUCH_LATER)
    assert texts(found) == [(STRING, False)]


def test_an_id_with_several_schemas_is_a_problem_that_names_them(reused: SchemaStore) -> None:
    (problem,) = reused.problems
    assert problem.reason == (
        "the id 7 has 2 schemas: items-value version 1 (id 7), orders-value version 1 (id 7)"
    )


def test_of_two_schemas_at_one_time_the_first_one_counts_as_in_the_registry(
    tmp_path: Path,
) -> None:
    store = written(
        tmp_path,
        schema_record("b", 1, 7, timestamp=NOW),
        schema_record("a", 1, 7, LONG, timestamp=NOW),
    )
    assert texts(store.by_id(".", 7, NOW)) == [(STRING, True), (LONG, True)]


def test_one_text_in_several_subjects_is_one_candidate_with_the_likely_subject(
    tmp_path: Path,
) -> None:
    store = written(tmp_path, schema_record("a", 1, 7), schema_record("b-value", 1, 7))
    (candidate,) = store.asked_for(Framing(Form.CONFLUENT, 5, id=7), "b")
    assert candidate.schema.subject == "b-value"
    (candidate,) = store.asked_for(Framing(Form.CONFLUENT, 5, id=7), "other")
    assert candidate.schema.subject == "a"
    assert store.problems == ()


def test_a_schema_whose_registration_is_compacted_away_may_be_older(tmp_path: Path) -> None:
    store = written(tmp_path, schema_record(id_=7, timestamp=MUCH_LATER, deleted=True))
    assert texts(store.by_id(".", 7, NOW)) == [(STRING, True)]


def test_an_id_is_looked_for_in_the_default_context_before_others(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record(":.a:x", 1, 7, LONG),
        schema_record("x", 1, 7),
        schema_record(":.b:orders-value", 1, 7, '"int"'),
    )
    framing = Framing(Form.CONFLUENT, 5, id=7)
    assert [text for text, _ in texts(store.asked_for(framing, "other"))] == [STRING, LONG]
    assert texts(store.asked_for(framing, "orders"))[0][0] == '"int"'
    assert texts(store.by_id(".a", 7)) == [(LONG, True)]
    assert store.by_id(".c", 7) == []


def test_a_guid_finds_the_schema_of_a_header(tmp_path: Path) -> None:
    store = written(tmp_path, schema_record(), schema_record("items", 1, 2, LONG))
    guid = store.by_id(".", 2)[0].schema.guid
    assert guid is not None
    assert texts(store.asked_for(Framing(Form.CONFLUENT_HEADER, guid=guid), "x")) == [(LONG, True)]


def test_a_fingerprint_finds_the_schema_of_a_single_object(tmp_path: Path) -> None:
    store = written(tmp_path, schema_record(), schema_record("bad", 1, 2, "{"))
    data = b"\xc3\x01" + (0x8F014872634503C7).to_bytes(8, "little") + b"\x02x"
    assert texts(store.asked_for(next(framings(data)), "x")) == [(STRING, True)]


def test_an_artifact_of_apicurio_is_a_subject(tmp_path: Path) -> None:
    store = written(
        tmp_path, schema_record(version=1), schema_record(version=2, id_=2, schema=LONG)
    )
    for version, text in (("1", STRING), ("2", LONG), ("", LONG)):
        framing = Framing(Form.APICURIO_HEADER, artifact=("shop", "orders-value", version))
        assert texts(store.asked_for(framing, "x")) == [(text, True)]


def test_a_bare_value_has_the_schema_that_its_topic_is_mapped_to(tmp_path: Path) -> None:
    store = SchemaStore(
        written(tmp_path, schema_record("order", 1), schema_record("order", 2, 2, LONG)).schemas,
        mapped=[
            Mapped(NamePattern.parse("orders"), False, "order", 1, "shop.Order"),
            Mapped(NamePattern.parse("lost"), False, "nothing"),
            Mapped(NamePattern.parse("o*"), False, "order"),
        ],
    )
    found = store.bare("orders")
    assert found is not None
    assert (found[0].message, found[1].schema.text) == ("shop.Order", STRING)
    found = store.bare("others")
    assert found is not None
    assert found[1].schema.text == LONG
    assert store.bare("orders", is_key=True) is store.bare("lost") is store.bare("items") is None


def test_the_newest_version_is_the_newest_that_is_not_deleted(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record(version=1),
        schema_record(version=2, id_=2, schema=LONG, deleted=True),
    )
    newest = store.version("orders-value", NEWEST_VERSION)
    assert newest is not None
    assert newest.version == 1
    assert store.version("orders-value", 3) is None
    assert store.version("none", NEWEST_VERSION) is None


def referring(subject: str, *names: str, context: str = "") -> Schema:
    references = tuple(Reference(f"n.{name}", name, 1) for name in names)
    return Schema(
        SchemaKind.AVRO,
        f"text of {subject}",
        references,
        Origin("f"),
        subject=context + subject,
        version=1,
    )


def test_references_come_after_those_that_they_need() -> None:
    top = referring("top", "left", "right")
    store = SchemaStore(
        [top, referring("left", "base"), referring("right", "base", "left"), referring("base")]
    )
    assert [name for name, _ in store.resolved(top)] == ["n.base", "n.left", "n.right"]


def test_a_reference_stays_in_the_context_of_its_schema() -> None:
    top = referring("top", "base", context=":.eu:")
    store = SchemaStore([top, referring("base", context=":.eu:"), referring("base")])
    assert [schema.subject for _, schema in store.resolved(top)] == [":.eu:base"]


def test_references_in_a_circle_end() -> None:
    first = referring("first", "second")
    store = SchemaStore([first, referring("second", "first")])
    assert [name for name, _ in store.resolved(first)] == ["n.first", "n.second"]


def test_a_reference_to_a_deleted_version_is_found(tmp_path: Path) -> None:
    store = written(
        tmp_path,
        schema_record("base", 1, 1, timestamp=NOW),
        schema_record(
            "top",
            1,
            2,
            LONG,
            references=[{"name": "b", "subject": "base", "version": 1}],
            timestamp=LATER,
        ),
        tombstone("base", 1, MUCH_LATER),
        schema_record("base", 1, 3, '"int"', timestamp=MUCH_LATER + 1),
    )
    (top,) = store.versions("top")
    assert [schema.text for _, schema in store.resolved(top)] == [STRING]


def test_a_reference_that_is_not_known_is_named() -> None:
    top = referring("top", "base")
    with pytest.raises(
        UndecodableError, match="top version 1 refers to base version 1, which is not known"
    ):
        SchemaStore([top]).resolved(top)


def test_references_are_bounded_and_may_be_deep() -> None:
    chain = [referring(str(place), str(place + 1)) for place in range(MOST_REFERENCES)]
    store = SchemaStore([*chain, referring(str(MOST_REFERENCES))])
    assert len(store.resolved(chain[0])) == MOST_REFERENCES
    longer = referring("start", "0")
    with pytest.raises(UndecodableError, match="needs more than 1000 schemas"):
        SchemaStore([longer, *store.schemas]).resolved(longer)


def test_a_union_has_all_schemas_and_the_first_settings(tmp_path: Path) -> None:
    first = SchemaStore(
        [referring("a")], settings={("MODE", None): [Change(5, {"mode": "IMPORT"})]}
    )
    second = SchemaStore(
        [referring("b")], settings={("MODE", None): [Change(9, {"mode": "READWRITE"})]}
    )
    union = SchemaStore.union([first, second])
    assert union.subjects() == ["a", "b"]
    assert union.settings == {("MODE", None): {"mode": "IMPORT"}}
