"""The reads of a schema registry's REST API, against what Confluent's registry said of the same topic."""

from __future__ import annotations

import json
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pytest
from click.testing import CliRunner

from kafkafs.cli import cli
from kafkafs.schemas.sources.opened import open_schemas
from kafkafs.serve.network.http import HttpRequest
from kafkafs.serve.registry.rest import READ_ONLY, RestApi
from tests.kafkafs.serve.serving import serving
from tests.schema_truth import registered, schema_log_dir

KIND = "schemas-confluent"
NEWEST = {"confluent-accept-unknown-properties": "true"}
"""What new clients say: without it no fields that old clients refuse."""


@cache
def api() -> RestApi:
    store = open_schemas([str(schema_log_dir(KIND))])
    return RestApi(lambda: store, "cluster", "0")


def asked(path: str, *, method: str = "GET", headers: dict[str, str] = NEWEST, **query: Any) -> Any:
    """The status, if it is not 200, and the JSON of an answer."""
    answer = api().answer(HttpRequest(method, path, urlencode(query), headers, b""))
    found = json.loads(answer.body)
    return found if answer.status == 200 else (answer.status, found["error_code"])


def by_place(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["subject"], row["version"]))


def versions_of(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}/versions"


def test_the_list_of_all_schemas_is_that_of_the_registry() -> None:
    found = asked("/schemas", deleted="true", subjectPrefix=":*:")
    times = [row.pop("ts") for row in found]
    assert by_place(found) == by_place(registered(KIND))
    assert all(times)
    live = [row for row in registered(KIND) if not row["deleted"]]
    assert len(asked("/schemas", subjectPrefix=":*:")) == len(live)


@pytest.mark.parametrize(
    "row", registered(KIND), ids=lambda row: f"{row['subject']}/{row['version']}"
)
def test_each_version_is_answered_by_its_subject_its_id_and_its_guid(row: dict[str, Any]) -> None:
    subject, version, id_ = row["subject"], row["version"], row["id"]
    path = f"{versions_of(subject)}/{version}"
    found = asked(path, deleted="true")
    del found["ts"]
    assert found == row
    assert asked(path) == ((404, 40402) if live_versions(subject) else (404, 40401)) or not row["deleted"]  # fmt: skip
    assert asked(f"/schemas/ids/{id_}", subject=subject)["schema"] == row["schema"]
    assert asked(f"/schemas/guids/{row['guid']}")["schema"] == row["schema"]
    place = {"subject": subject, "version": version}
    assert place in asked(f"/schemas/ids/{id_}/versions", subject=subject, deleted="true")
    assert (place in asked(f"/schemas/ids/{id_}/versions", subject=subject)) is not row["deleted"]


def live_versions(subject: str) -> list[int]:
    rows = registered(KIND)
    return [r["version"] for r in rows if r["subject"] == subject and not r["deleted"]]


def test_the_versions_of_subjects_are_those_of_the_registry() -> None:
    assert asked("/subjects") == sorted({row["subject"] for row in registered(KIND) if not row["deleted"]})  # fmt: skip
    for subject in {row["subject"] for row in registered(KIND)}:
        live = live_versions(subject)
        assert asked(versions_of(subject)) == (live or (404, 40401))
        rows = [row for row in registered(KIND) if row["subject"] == subject]
        assert asked(versions_of(subject), deleted="true") == [row["version"] for row in rows]


def test_an_id_of_a_schema_that_is_deleted_for_good_is_answered_and_listed_nowhere() -> None:
    kept = {row["id"] for row in registered(KIND) if not row["subject"].startswith(":")}
    gone = [r for r in registered(KIND, "before") if r["id"] not in kept and r["subject"][0] != ":"]
    assert gone
    for row in gone:
        assert asked(f"/schemas/ids/{row['id']}")["schema"] == row["schema"]
        assert asked(f"/schemas/ids/{row['id']}/versions", deleted="true") == []


def test_a_subject_without_a_context_is_found_in_all_of_them() -> None:
    """As the registry does: a deserializer of the topic context-west names no context."""
    [row] = [r for r in registered(KIND) if r["subject"] == ":.west:context-west-value"]
    found = asked(f"/schemas/ids/{row['id']}", subject="context-west-value")
    assert found["subject"] == ":.west:context-west-value"
    assert asked("/contexts") == [".", ".other", ".west"]
    under = asked("/contexts/:.west:/subjects")
    assert under == [each for each in asked("/subjects") if each.startswith(":.west:")]
    assert asked(f"/contexts/.west/schemas/ids/{row['id']}")["schema"] == found["schema"]


def test_references_are_found_from_both_ends() -> None:
    path = f"{versions_of(':.other:ref.proto')}/1"
    [id_] = asked(f"{path}/referencedby")
    user = asked(f"/schemas/ids/{id_}", subject=":.other:", referenceFormat="qualified")
    assert [each["subject"] for each in user["references"]] == [":.other:ref.proto"]


def test_settings_fall_back_from_the_subject_to_all_of_them() -> None:
    assert asked("/config") == {"compatibilityLevel": "NONE"}
    assert asked("/config/orders-value") == (404, 40408)
    assert asked("/config/orders-value", defaultToGlobal="true") == {"compatibilityLevel": "NONE"}
    assert asked("/mode/orders-value") == (404, 40409)
    assert asked("/mode/orders-value", defaultToGlobal="True") == {"mode": "READWRITE"}


def test_pages_are_cut_as_asked() -> None:
    every = asked("/subjects")
    assert asked("/subjects", offset=2, limit=3) == every[2:5]
    assert asked("/subjects", offset=2, limit=-1) == every[2:]


def test_old_clients_get_no_field_that_they_refuse() -> None:
    found = asked(f"{versions_of('avro-types-value')}/1", headers={})
    assert found.keys() == {"subject", "version", "id", "schema"}
    assert asked(f"/schemas/ids/{found['id']}", headers={}).keys() == {"schema"}


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/subjects/absent/versions", (404, 40401)),
        ("/subjects/absent/versions/1", (404, 40401)),
        ("/subjects/avro-types-value/versions/99", (404, 40402)),
        ("/subjects/avro-types-value/versions/0", (422, 42202)),
        ("/subjects/avro-types-value/versions/x", (422, 42202)),
        ("/schemas/ids/4000", (404, 40403)),
        ("/schemas/ids/99999999999999999999", (404, 404)),
        ("/schemas/guids/none", (404, 40403)),
        ("/absent", (404, 404)),
    ],
)
def test_what_is_not_there_has_the_error_of_the_registry(path: str, error: tuple[int, int]) -> None:
    assert asked(path) == error


def test_a_client_reads_as_of_a_time_and_is_refused_over_the_wire(tmp_path: Path) -> None:
    store = open_schemas([str(schema_log_dir(KIND))])
    deleted = min(each.deleted_since for each in store.schemas if each.deleted_since is not None)
    options = "--schema-registry", "127.0.0.1:0", "--at", str(deleted - 1)
    with serving(schema_log_dir(KIND), tmp_path, *options) as server:
        client = HTTPConnection(urlsplit(server.schema_registry).netloc, timeout=20)
        client.request("GET", "/schemas?subjectPrefix=:*:", headers=NEWEST)
        answer = client.getresponse()
        assert answer.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
        rows = json.load(answer)
        for row in rows:
            del row["ts"]
        assert by_place(rows) == by_place(registered(KIND, "before"))
        for method in ("POST", "PUT", "DELETE"):
            client.request(method, "/subjects/a-value/versions", b'{"schema":"\\"int\\""}')
            answer = client.getresponse()
            refused = {"error_code": 42205, "message": READ_ONLY}
            assert (answer.status, json.load(answer)) == (422, refused)
        client.close()


def test_a_source_without_the_topic_is_no_registry(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").touch()
    arguments = ["serve", str(tmp_path), "--schema-registry", "127.0.0.1:0"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "there is no topic _schemas" in result.output
