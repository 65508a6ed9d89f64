"""The page: whole without a network or a script, true to its source, and safe with any name in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
import re
import shutil
from errno import ENOSPC
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engine.errors import SourceError
from kafkafs.cli import cli
from kafkafs.report.page import page
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import copy_of, log_dir, truth_records
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.faces.damage import sound_node
from tests.kafkafs.report.many_facts import many_facts
from tests.kafkafs.report.pages import SECTIONS, attributes, parsed, section, text_of
from tests.replayed_bytes import write_metadata_log

CURRENT = log_dir("current")
EVIL = "<script>alert(1)</script>"
EVIL_NAME = "\"><img src=x onerror=alert(1)>'{{7*7}}\u202e\x1b[2J"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments])


def written(source: Path, target: Path, *options: str) -> tuple[str, Result]:
    result = run(str(source), "-o", str(target), *options)
    assert target.exists(), result.output
    return target.read_text("utf-8"), result


@pytest.fixture
def hurt(tmp_path: Path) -> Path:
    """A log dir of three partitions: a wrong byte in `orders-0`, a broken checkpoint with a secret in it."""
    copy = copy_of("current", tmp_path, ["orders-0", "codec-zstd-0", "__consumer_offsets-0"])
    log = copy / "orders-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[5000] ^= 1
    log.write_bytes(data)
    (copy / "recovery-point-offset-checkpoint").write_text("0\n1\nhunter2 is 'hunter2' x\n")
    return copy


def test_a_page_has_all_sections_and_the_facts_of_the_source(tmp_path: Path) -> None:
    text, result = written(CURRENT, tmp_path / "report.html")
    assert result.exit_code == 1  # a checkpoint names partitions that are not in the fixture
    root = parsed(text)
    assert [each.get("id") for each in root.iter("section")] == list(SECTIONS)
    assert all(text_of(section(root, name)) for name in SECTIONS)
    table = next(each for each in root.iter("table") if each.get("id") == "all")
    rows = {
        text_of(row[0]): [text_of(cell) for cell in row]
        for row in table.iter("tr")
        if row[0].tag == "td"
    }
    assert set(rows) == {path.name for path in CURRENT.iterdir() if path.is_dir()}
    assert rows["orders-0"][2:6] == ["3", "1,000", "0", "1,000"]
    assert "4.4.0 broker" in text_of(section(root, "start"))
    assert "kafkafs" in text_of(section(root, "source"))


def test_damage_comes_first_with_its_holes_to_scale_and_what_to_do(
    hurt: Path, tmp_path: Path
) -> None:
    text, result = written(hurt, tmp_path / "report.html")
    assert result.exit_code == 1
    root = parsed(text)
    (verdict,) = (each for each in root.iter("ul") if each.get("class") == "verdict")
    assert "error" in (verdict[0].get("class") or "")
    assert text_of(verdict[0]).startswith("The check found ")
    assert "batch-checksum" in text_of(section(root, "findings"))
    damage = section(root, "damage")
    assert "orders-0/00000000000000000000.log" in text_of(damage)
    hole = next(each for each in damage.iter("rect") if each.get("class") == "hole")
    size = (hurt / "orders-0" / "00000000000000000000.log").stat().st_size
    assert float(hole.get("x") or 0) == pytest.approx(3904 / size * 1000, abs=0.01)
    assert float(hole.get("width") or 0) == pytest.approx(2021 / size * 1000, abs=0.02)
    assert "3904..5925" in text_of(damage)
    assert "25..37" in text_of(damage)


def test_a_sound_source_is_status_0_and_says_what_was_read(tmp_path: Path) -> None:
    text, result = written(sound_node(tmp_path).path, tmp_path / "report.html")
    assert result.exit_code == 0, result.output
    assert "No damage: all 2,827 records were read and checked." in result.output
    assert "No damage: all 2,827 records" in text_of(parsed(text))


def test_a_log_dir_without_a_metadata_log_is_a_risk_as_in_a_plan(tmp_path: Path) -> None:
    _, result = written(log_dir("live"), tmp_path / "report.html")
    assert result.exit_code == 1, result.output
    assert "No damage: all 1,761 records were read and checked." in result.output
    assert "No metadata log here: a controller that starts here" in result.output


def test_what_a_start_makes_anew_and_forgets_is_there_as_in_a_plan(tmp_path: Path) -> None:
    source = copy_of("sample", tmp_path / "data")
    write_metadata_log(source)
    shutil.rmtree(source / "orders-0")
    for gone, says in (
        ("orders-1", "would make 2 partitions anew, from offset 0 on, which held 2,000 offsets."),
        (
            "__cluster_metadata-0",
            "No metadata log here: a controller that starts here forgets every topic",
        ),
    ):
        shutil.rmtree(source / gone)
        text, result = written(source, tmp_path / f"{gone}.html")
        assert result.exit_code == 1
        assert says in result.output
        planned = CliRunner().invoke(cli, ["plan", str(source)]).output.splitlines()
        lines = [
            line for line in planned if " anew," in line or "empty one" in line or "forgets" in line
        ]
        assert lines
        shown = text_of(section(parsed(text), "start"))
        assert all(line in shown or line.startswith("A 4.4.0") for line in lines), shown


def test_a_page_loads_nothing_and_runs_only_its_own_script(tmp_path: Path) -> None:
    text, _ = written(CURRENT, tmp_path / "report.html")
    root = parsed(text)
    policy = next(
        each.get("content") or ""
        for each in root.iter("meta")
        if each.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (element,) = root.iter(tag)
        digest = base64.b64encode(hashlib.sha256((element.text or "").encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    names = set().union(*(attributes(each) for each in root.iter()))
    assert not names & {"src", "srcset", "style", "action", "onload", "onclick"}
    links = {each.get("href") for each in root.iter("a")}
    assert all((link or "").startswith("#") for link in links)
    assert "url(" not in text
    assert "@import" not in text


def hostile_group(name: str) -> bytes:
    """A record batch of `__consumer_offsets` with an offset that the group committed."""

    def string(text: str) -> bytes:
        return len(text.encode()).to_bytes(2, "big") + text.encode()

    key = (1).to_bytes(2, "big") + string(name) + string("orders") + bytes(4)
    value = (3).to_bytes(2, "big") + (7).to_bytes(8, "big") + b"\xff" * 4
    value += string(EVIL + "metadata") + (1_700_000_000_000).to_bytes(8, "big")
    return builders.batch([Rec(value, key, 1_700_000_000_000)], 0)


def test_names_cannot_leave_their_place(tmp_path: Path) -> None:
    source = tmp_path / EVIL.replace("/", "_") / "data"
    for name in (f"{EVIL_NAME}-0", "<b>bold<!---0", "]]><svg onload=x>-1"):
        log = BuiltLog(source, name)
        batch = bytearray(builders.batch([Rec(b"v", b"k", 1_700_000_000_000)], 0))
        batch[-1] ^= 1
        log.segment([bytes(batch)], 0)
    BuiltLog(source, "__consumer_offsets-0").segment([hostile_group(EVIL + EVIL_NAME)], 0)
    (source / "replication-offset-checkpoint").write_text(f"0\n1\n{EVIL} 0 1\n")
    (source / "meta.properties").write_text(f"version=1\ncluster.id={EVIL}\nnode.id=1\n")
    text, _ = written(source, tmp_path / "report.html")
    root = parsed(text)
    tags = {each.tag for each in root.iter() if isinstance(each.tag, str)}
    assert not tags & {"img", "b{", "iframe", "object"}
    assert len(list(root.iter("script"))) == 1
    assert not [each for each in root.iter("b") if text_of(each).startswith("bold")]
    assert not any(attributes(each) & {"onload", "onerror"} for each in root.iter())
    whole = text_of(root)
    assert "{{7*7}}" in whole
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert EVIL in text_of(section(root, "groups"))
    assert "metadata" not in text_of(section(root, "groups"))


def test_no_key_value_or_header_of_a_record_is_in_the_page(tmp_path: Path) -> None:
    text, _ = written(CURRENT, tmp_path / "report.html")
    for name in ("orders-0", "weird-0", "txn-0"):
        for record in truth_records("current", name):
            for field in (record.key, record.value, *(value for _, value in record.headers)):
                if field and len(field) > 6 and field.isascii():
                    assert field.decode() not in text, name


def test_text_that_a_message_quotes_from_a_damaged_file_is_left_out(
    hurt: Path, tmp_path: Path
) -> None:
    text, _ = written(hurt, tmp_path / "report.html")
    assert "checkpoint-unreadable" in text
    assert "hunter2" not in text


def test_a_choice_of_partitions_is_named_and_an_empty_one_is_an_error(tmp_path: Path) -> None:
    text, _ = written(CURRENT, tmp_path / "report.html", "--topic", "orders")
    root = parsed(text)
    assert "chosen partitions only" in text_of(root)
    assert "Not planned" in text_of(section(root, "start"))
    result = run(str(CURRENT), "-o", str(tmp_path / "none.html"), "--topic", "no-such-topic")
    assert result.exit_code != 0
    assert not (tmp_path / "none.html").exists()


def test_a_page_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(ENOSPC, os.strerror(ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    found = run(str(log_dir("sample")), "-o", str(tmp_path / "page.html"))
    assert isinstance(found.exception, SourceError)
    assert str(found.exception) == f"cannot write {tmp_path}/page.html: No space left on device"
    assert list(tmp_path.iterdir()) == []


def test_the_page_is_never_written_into_the_source(tmp_path: Path) -> None:
    source = tmp_path / "data"
    shutil.copytree(log_dir("sample"), source)
    before = sorted(source.rglob("*"))
    for target in (source / "report.html", source / "orders-0" / "report.html"):
        result = run(str(source), "-o", str(target))
        assert result.exit_code == 2, result.output
        assert "is only read" in result.output
    assert sorted(source.rglob("*")) == before


def test_standard_output_takes_the_page_alone() -> None:
    result = run(str(log_dir("live")), "-o", "-")
    assert result.stdout.startswith("<!doctype html>")
    assert result.stdout.rstrip().endswith("</html>")


def test_ten_thousand_partitions_stay_below_five_megabytes() -> None:
    text = page(many_facts(10_000, 400))
    table = text[text.index('id="all"') :]
    assert table[: table.index("</table>")].count("<tr") == 10_001
    assert len(text.encode()) < 5_000_000
    assert len(gzip.compress(text.encode(), 1)) < 1_000_000
    squares = text[text.index('<svg class="map"') :]
    assert squares[: squares.index("</svg>")].count("z") == 10_000


def test_a_wrong_timestamp_does_not_squeeze_the_picture(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path / "data")
    good = [Rec(b"v", None, 1_700_000_000_000 + minute * 60_000) for minute in range(2000)]
    log.segment(
        [
            *(builders.batch([each], at) for at, each in enumerate(good)),
            builders.batch([Rec(b"v", None, 5)], 2000),
        ],
        0,
    )
    text, _ = written(tmp_path / "data", tmp_path / "report.html")
    time = text_of(section(parsed(text), "time"))
    assert "1 record far from the others in time" in time
    assert "1970-01-01" in time
    assert re.search(r"By (10|20|30) minutes|By \d*\s?minute", time)


def test_the_data_of_a_picture_is_on_its_axis(tmp_path: Path) -> None:
    text, _ = written(CURRENT, tmp_path / "report.html")
    for picture in parsed(text).iter("svg"):
        for rect in picture.iter("rect"):
            if rect.get("x") is not None:
                assert float(rect.get("x") or 0) >= 0
                assert float(rect.get("x") or 0) + float(rect.get("width") or 0) <= 1000.01


def test_the_disk_is_drawn_with_what_goes_next_and_what_may_go(tmp_path: Path) -> None:
    home = copy_of("current", tmp_path)
    (home / "gone-0.0123456789abcdef0123456789abcdef-stray").mkdir()
    text, _ = written(home, tmp_path / "page.html")
    found = section(parsed(text), "disk")
    drawn = [text_of(each) for each in found.iter("title")]
    assert any(each.startswith("orders-0: ") for each in drawn)
    assert any(each.startswith("compacted-0, set aside: ") for each in drawn)
    assert "must stay: -stray" in text_of(found)
    assert "may go: .deleted" in text_of(found)
    assert "retention.ms=604800000" in text_of(found)


def test_a_choice_draws_only_its_partitions(tmp_path: Path) -> None:
    text, _ = written(log_dir("current"), tmp_path / "page.html", "--topic", "orders")
    drawn = [text_of(each) for each in section(parsed(text), "disk").iter("title")]
    assert [each.partition(":")[0] for each in drawn] == ["orders-0"]
