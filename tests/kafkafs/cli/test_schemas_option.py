"""`--schemas`: of the source, none, or of a path; with the same lines by every command and in a mount's tree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from engine.errors import SourceError
from kafkafs.cli import cli
from kafkafs.mount.mounting import parse_options
from tests.fixtures_data import DATA

SOURCE = DATA / "schemas-confluent" / "data"
TOPIC = "avro-evolution-0"


def run(*arguments: object) -> list[dict[str, object]]:
    result = CliRunner().invoke(cli, [str(each) for each in arguments])
    assert result.exit_code in (0, 1), result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A log dir with the topic, without the registry's."""
    shutil.copytree(SOURCE / TOPIC, tmp_path / "data" / TOPIC)
    return tmp_path / "data"


def test_the_source_s_schemas_are_the_default() -> None:
    first = run("cat", SOURCE, f"{TOPIC}/offset/0")[0]
    assert first["valueEncoding"] == "avro"
    assert run("cat", "--schemas", "auto", SOURCE, f"{TOPIC}/offset/0")[0] == first


def test_none_shows_the_bytes() -> None:
    first = run("cat", "--schemas", "none", SOURCE, f"{TOPIC}/offset/0")[0]
    assert "schema" not in first
    assert first.get("valueEncoding") in (None, "base64")


def test_a_path_gives_the_schemas_of_another_source(alone: Path) -> None:
    bare = run("cat", alone, f"{TOPIC}/offset/0..")
    assert not any("schema" in line or "valueNote" in line for line in bare)
    lines = run("cat", "--schemas", SOURCE, alone, f"{TOPIC}/offset/0..")
    assert lines == run("cat", SOURCE, f"{TOPIC}/offset/0..")
    assert all(line["valueEncoding"] == "avro" for line in lines if line["value"] is not None)


def test_a_path_that_is_missing_is_an_error(alone: Path) -> None:
    result = CliRunner().invoke(cli, ["cat", "--schemas", "/no/such", str(alone), TOPIC])
    assert isinstance(result.exception, SourceError)


def test_grep_finds_decoded_text_and_bytes() -> None:
    every = run("cat", SOURCE, f"{TOPIC}/offset/0..")
    matching = [line for line in every if '{"' in json.dumps(line["value"])]
    assert matching
    assert run("grep", r"^\{", SOURCE, TOPIC, "--field", "value") == matching
    assert run("grep", r"^\{", SOURCE, TOPIC, "--field", "value", "--schemas", "none") == []
    inverted = run("grep", "-v", r"^\{", SOURCE, TOPIC, "--field", "value")
    assert len(inverted) + len(matching) == len(every)


def test_a_mount_takes_the_option() -> None:
    assert parse_options("schemas=none").schemas == "none"
    assert parse_options("schemas=/a:/b").schemas == "/a:/b"
