"""`kafkafs erase`: by keys, conditions and lists of offsets; no content of an erased record is left or said anywhere."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.coding.compression import CompressionType
from kafkafs.cli import cli
from tests import builders
from tests.builders import Rec

CANARY = "canary-7d1f0a93"
KEY = f"user-{CANARY}"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["erase", *map(str, arguments)])


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Records of two users in all codecs, in a log, a deleted segment and a stray folder."""
    folder = tmp_path / "data"
    batches = []
    for number, codec in enumerate(CompressionType):
        value = json.dumps({"user": KEY, "n": number}).encode()
        other = json.dumps({"user": "somebody", "n": number}).encode()
        records = [Rec(value, KEY.encode()), Rec(other, b"somebody")]
        batches.append(builders.batch(records, 2 * number, codec))
    builders.write_segment(folder / "clicks-0", batches, snapshot=[])
    builders.write_segment(folder / "clicks-0.0123456789abcdef0123456789abcdef-stray", batches)
    old = builders.segment_files(batches)["00000000000000000000.log"]
    (folder / "clicks-0/00000000000000000000.log.deleted").write_bytes(old)
    return folder


@pytest.mark.parametrize(
    "choice",
    [
        ("--key", KEY),
        ("--key", KEY.encode().hex(), "--key-format", "hex"),
        ("--where", f'.value.user == "{KEY}"'),
        ("--where", ".offset % 2 == 0", "--scan", CANARY),
        ("--records", "RECORDS"),
    ],
)
def test_a_canary_is_nowhere_in_the_result_and_in_what_is_said(
    choice: tuple[str, ...], log_dir: Path, tmp_path: Path
) -> None:
    offsets = tmp_path / "offsets"
    line = '{"topic":"clicks","partition":0,"offset":8,"value":"x"}\n'
    offsets.write_text("clicks-0:0\nclicks-0 2\nclicks-0:4\n\nclicks-0:6\n" + line)
    words = [str(offsets) if each == "RECORDS" else each for each in choice]
    target, manifest = tmp_path / "target", tmp_path / "manifest.json"
    result = run(*words, log_dir, target, "--manifest", manifest, "--verbose")
    assert result.exit_code == 1, "no metadata: nobody knows of other copies"
    facts = json.loads(manifest.read_text())
    assert (facts["totals"]["records"], facts["totals"]["copies"], facts["traces"]) == (5, 15, [])
    assert [each["kind"] for each in facts["unreached"]] == ["no_metadata"]
    assert CANARY not in result.output + result.stderr
    for path in [manifest, *(each for each in target.rglob("*") if each.is_file())]:
        assert CANARY.encode() not in path.read_bytes(), path
    for pattern, count in ((CANARY, 0), ("somebody", 15)):
        words = ["grep", "-c", "--deleted-all", pattern, str(target / "data")]
        assert CliRunner().invoke(cli, words).stdout == f"{count}\n"


def test_a_plan_tells_where_the_records_stand(log_dir: Path, tmp_path: Path) -> None:
    result = run("--plan", "--key", KEY, log_dir)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == (
        "To erase: 5 records of 1 partition, 15 with all copies; NOT ALL is reached."
    )
    asides = [line.split()[2] for line in lines[2:5]]
    assert asides == ["-", ".deleted", "-stray"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_copy_in_another_topic_is_left_and_told(log_dir: Path, tmp_path: Path) -> None:
    mirror = builders.batch([Rec(b"x", KEY.encode(), 1_700_000_000_000)], 7)
    builders.write_segment(log_dir / "mirror.clicks-0", [mirror])
    result = run("--topic", "clicks", "--key", KEY, log_dir, tmp_path / "target")
    assert result.exit_code == 1
    assert result.stdout.startswith("NOT DONE: erased are 5 records")
    assert (
        "left: data/mirror.clicks-0/00000000000000000000.log: an erased key stands in the key of 1"
        " record from offset 7 on, since 2023-11-14 22:13:20" in result.stdout
    )


def test_a_log_that_is_not_named_is_not_erased_of_kafkas_own(log_dir: Path) -> None:
    group = builders.batch([Rec(b"x", KEY.encode())], 0)
    builders.write_segment(log_dir / "__consumer_offsets-0", [group])
    facts = json.loads(run("--plan", "--json", "--key", KEY, log_dir).stdout)
    assert list(facts["partitions"]) == ["clicks-0"]
    assert [each["path"].split("/")[-2] for each in facts["traces"]] == ["__consumer_offsets-0"]


def test_nothing_chosen_is_status_1_and_no_target(log_dir: Path, tmp_path: Path) -> None:
    result = run("--key", "nobody", log_dir, tmp_path / "target")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no record is chosen" in result.stderr
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["SOURCE", "TARGET"], "one of --where, --key and --records"),
        (["--key", "a", "--where", ".offset", "SOURCE", "TARGET"], "one of --where, --key and"),
        (["--key", "a", "SOURCE"], "name at least one SOURCE and a TARGET"),
        (["--key", "a", "SOURCE/clicks-0", "TARGET"], "is one partition, no log dir"),
        (["--key", "a", "SOURCE", "SOURCE", "TARGET"], "named twice"),
        (["--key", "a", "SOURCE", "SOURCE/new"], "is inside the source"),
        (["--records", "/dev/null", "SOURCE", "TARGET"], "has no line"),
        (["--key", "a", "--sign", "k", "SOURCE", "TARGET"], "name one"),
        (["--key", "a", "--plan", "--manifest", "m", "SOURCE"], "leave out --manifest"),
        (["--key", "a", "--manifest", "SOURCE/m", "SOURCE", "TARGET"], "is inside the source"),
        (["--verify", "m", "SOURCE", "TARGET"], "one TARGET"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(
    words: list[str], error: str, log_dir: Path, tmp_path: Path
) -> None:
    places = {"SOURCE": str(log_dir), "TARGET": str(tmp_path / "target")}
    for name, place in places.items():
        words = [each.replace(name, place) for each in words]
    result = run(*words)
    assert result.exit_code == 2
    assert error in result.stderr, result.stderr
    assert not (tmp_path / "target").exists()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")
def test_a_signed_manifest_is_proven_by_ssh_keygen(log_dir: Path, tmp_path: Path) -> None:
    key, manifest, target = tmp_path / "key", tmp_path / "case.json", tmp_path / "target"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    result = run("--key", KEY, log_dir, target, "--manifest", manifest, "--sign", key)
    assert result.exit_code == 1, result.stderr
    signers = tmp_path / "signers"
    signers.write_text(f"me {(tmp_path / 'key.pub').read_text()}")
    verify = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "me", "-n", "file", "-s"]
    proven = [*verify, f"{manifest}.sig"]
    subprocess.run(proven, input=manifest.read_bytes(), check=True, capture_output=True)
    assert run("--verify", manifest, target).exit_code == 0
    log = target / "data/clicks-0/00000000000000000000.log"
    log.write_bytes((log_dir / "clicks-0/00000000000000000000.log").read_bytes())
    result = run("--verify", manifest, target)
    assert result.exit_code == 1
    assert "erased records are back in it: 5" in result.stdout
