"""What a page answers: which hours of which topics are whole, what is missing and when, at what rate; and all of it as JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.check.log_statistics import DAY_MS, HOUR_MS, MINUTE_MS
from engine.verdict.loss import Loss, LossKind
from kafkafs import amounts
from kafkafs.cli import cli
from kafkafs.report.axes import Axis
from kafkafs.report.heat_map import HeatMap, heat_map
from kafkafs.report.offset_curves import curves
from tests import builders
from tests.builders import Rec
from tests.fixtures_data import copy_of, log_dir
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.report.many_facts import NOW, many_facts
from tests.kafkafs.report.pages import parsed, section, text_of

START = NOW // HOUR_MS * HOUR_MS


def even_stream(folder: Path, name: str, hours: int, each: int, gap: int | None = None) -> Path:
    """A record each 10 seconds, in batches of `each`; a bit of each batch that begins in the hour `gap` is wrong."""
    log = BuiltLog(folder, name)
    batches = []
    for base in range(0, hours * 360, each):
        times = [START + 10_000 * (base + place) for place in range(each)]
        if gap is not None and (times[0] - START) // HOUR_MS == gap:
            batches.append(flipped(builders.batch([Rec(b"v", b"k", time) for time in times], base)))
        else:
            batches.append(builders.batch([Rec(b"v", b"k", time) for time in times], base))
    log.segment(batches, 0)
    return folder


def flipped(batch: bytes) -> bytes:
    """A batch with a wrong last byte."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


def reported(source: Path | str, *options: str) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["report", str(source), "--json", "-j", "1", *options])
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_an_even_stream_in_long_batches_has_an_even_rate(tmp_path: Path) -> None:
    counts = reported(even_stream(tmp_path, "even-0", 6, 90))["recordsByTime"]
    assert counts["step"] == MINUTE_MS
    found = {each["start"]: each["records"] for each in counts["counts"]}
    assert sum(found.values()) == 6 * 360
    inner = [
        found[at] for at in range(START + MINUTE_MS, START + 6 * HOUR_MS - MINUTE_MS, MINUTE_MS)
    ]
    assert set(inner) <= {5, 6, 7}  # a record each 10 seconds


def test_the_hour_without_its_batches_is_missing_and_the_others_are_whole(tmp_path: Path) -> None:
    source = even_stream(tmp_path, "hurt-0", 30, 36, gap=20)
    even_stream(tmp_path, "fine-0", 30, 36)
    heat = reported(source)["topicsByTime"]
    assert heat["step"] == HOUR_MS
    rows = {each["topic"]: each["cells"] for each in heat["topics"]}
    assert {each["state"] for each in rows["fine"]} == {"whole"}
    assert len(rows["fine"]) == 30
    missing = [each for each in rows["hurt"] if each["state"] == "missing"]
    hours = {(each["start"] - START) // HOUR_MS for each in missing}
    assert 20 in hours
    assert hours <= {19, 20, 21}  # from the last record before to the first one after
    assert sum(each["records"] for each in rows["hurt"]) == 29 * 360
    assert {each["missingOffsets"] for each in missing} == {360}


def test_hours_in_which_nothing_was_written_are_empty(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path, "seldom-0")
    log.segment(
        [
            builders.batch([Rec(b"v", b"k", START + hour * HOUR_MS)], at)
            for at, hour in enumerate((0, 1, 7))
        ],
        0,
    )
    (row,) = reported(tmp_path)["topicsByTime"]["topics"]
    width = reported(tmp_path)["topicsByTime"]["step"]
    assert [each["state"] for each in row["cells"]] == ["whole"] * 3
    assert {each["start"] for each in row["cells"]} == {
        (START + hour * HOUR_MS) // width * width for hour in (0, 1, 7)
    }


def test_a_map_of_many_topics_is_small_and_shows_those_with_losses() -> None:
    facts = many_facts(1000, 300)
    loss = Loss(
        partition="service-0299-events-0", kind=LossKind.GAP, first_offset=5, next_offset=15, file="",
        reason="", before=NOW - 3 * DAY_MS, after=NOW - 3 * DAY_MS + HOUR_MS,
    )  # fmt: skip
    facts.losses = [
        loss,
        Loss(partition="x-0", kind=LossKind.END, first_offset=1, next_offset=2, file="", reason=""),
    ]
    found = heat_map(facts)
    assert found is not None
    assert (len(found.rows), found.left_out, found.untimed) == (60, 240, 1)
    assert "service-0299-events" in {row.topic for row in found.rows}
    assert len(found.picture().shapes) <= 60 * 97
    assert all(
        found.axis.first <= cell.start < found.axis.end for row in found.rows for cell in row.cells
    )


def test_without_records_and_losses_there_is_no_map() -> None:
    facts = many_facts(1, 1)
    facts.topics.clear()
    assert heat_map(facts) is None
    assert isinstance(HeatMap(Axis(0, 1, is_time=True), MINUTE_MS).picture().height, int)


def test_offsets_over_time_have_epochs_and_what_is_missing(tmp_path: Path) -> None:
    log = BuiltLog(tmp_path, "led-0")
    batches = [
        builders.batch([Rec(b"v", b"k", START + at * 1000)], at, leader_epoch=at // 40)
        for at in range(100)
    ]
    log.segment([*batches[:50], *map(flipped, batches[50:60]), *batches[60:]], 0)
    (log.log_dir / "led-0" / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 40\n2 80\n")
    target = tmp_path.parent / f"{tmp_path.name}.html"
    CliRunner().invoke(cli, ["report", str(tmp_path), "-o", str(target), "-j", "1"])
    figure = next(
        each for each in section(parsed(target.read_text("utf-8")), "segments").iter("figure")
        if each.get("class") == "curve"
    )  # fmt: skip
    titles = [text_of(each) for each in figure.iter("title")]
    assert [each.split(",")[0] for each in titles if "epoch" in each] == [
        f"leader epoch {epoch} from offset {start} on"
        for epoch, start in ((0, 0), (1, 40), (2, 80))
    ]
    assert "missing: offsets 50..60" in titles
    assert "3 leader epochs" in text_of(figure)
    epochs = reported(tmp_path)["leaderEpochs"]["led-0"]
    assert [(each["epoch"], each["startOffset"]) for each in epochs] == [(0, 0), (1, 40), (2, 80)]


def test_partitions_without_a_time_have_no_curve() -> None:
    facts = many_facts(10, 2)
    facts.epochs = {"service-0000-events-0": [], "gone-0": []}
    (curve,) = curves(facts)
    assert (curve.name, curve.epochs) == ("service-0000-events-0", 0)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """The page of a damaged source, and the same as JSON."""
    folder = tmp_path_factory.mktemp("both")
    copy = copy_of("current", folder)
    for name, position in (("orders-0", 5000), ("codec-zstd-0", 30_000)):
        path = min((copy / name).glob("*.log"))
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
    target = folder / "page.html"
    CliRunner().invoke(cli, ["report", str(copy), "-o", str(target), "-j", "1"])
    return target.read_text("utf-8"), reported(copy)


def numbers_of(facts: Any) -> Counter[int]:
    """All numbers of a JSON value, also those in its texts and names."""
    found: Counter[int] = Counter()
    if isinstance(facts, bool) or facts is None:
        return found
    if isinstance(facts, int | float):
        found[facts] += 1  # type: ignore[index]
    elif isinstance(facts, str):
        found.update(int(each.replace(",", "")) for each in re.findall(r"\d[\d,]*", facts))
    elif isinstance(facts, dict):
        for name, value in facts.items():
            found += numbers_of(name) + numbers_of(value)
    else:
        for each in facts:
            found += numbers_of(each)
    return found


def test_each_number_of_the_page_is_in_the_json(both: tuple[str, dict[str, Any]]) -> None:
    page, facts = both
    known = numbers_of(facts)
    texts = {amounts.count(each) for each in known if isinstance(each, int)}
    texts |= {str(each) for each in known} | {amounts.size(int(each)) for each in known}
    texts |= {amounts.ratio(each) for each in known}
    texts |= {f"{each['records'] / each['batches']:.1f}" for each in facts["codecs"].values()}
    texts |= {amounts.ratio(each["plain"] / each["size"]) for each in facts["codecs"].values()}
    root = parsed(page)
    cells = [
        text_of(each)
        for name in ("damage", "start", "partitions", "batches", "groups", "transactions", "source")
        for table in section(root, name).iter("table")
        if table.get("class") != "bars"
        for row in table.iter("tr")
        for place, each in enumerate(row)
        if each.get("class", "").startswith("n") or (table.get("id") == "all" and place)
    ]
    unknown = [
        cell
        for cell in cells
        for number in re.findall(
            r"\d[\d,.]*(?: [kMGT]?B\b|×)?",
            re.sub(r"\d{4}-\d\d-\d\d.*", "", cell).replace("..", " "),
        )
        if number.strip(".,") not in texts
    ]
    assert len(cells) > 200
    assert unknown == []


def test_each_picture_is_told_by_numbers_of_the_json(both: tuple[str, dict[str, Any]]) -> None:
    page, facts = both
    cells = [each for row in facts["topicsByTime"]["topics"] for each in row["cells"]]
    drawn = re.findall(r'<rect class="(heat\d|missing)"', page)
    assert len(drawn) == len(cells)
    assert drawn.count("missing") == sum(each["state"] == "missing" for each in cells)
    assert sum(each["records"] for each in facts["recordsByTime"]["counts"]) == sum(
        each["records"] for row in facts["topicsByTime"]["topics"] for each in row["cells"]
    )
    assert page.count('<figure class="curve">') == len(facts["leaderEpochs"])


def test_json_has_no_key_value_or_quoted_text(both: tuple[str, dict[str, Any]]) -> None:
    text = json.dumps(both[1])
    assert "consumer-billing" not in text
    assert len(text.splitlines()) == 1


def test_a_report_without_a_page_or_json_is_a_usage_error() -> None:
    done = CliRunner().invoke(cli, ["report", str(log_dir("sample"))])
    assert done.exit_code == 2
    assert "-o FILE" in done.stderr


def test_the_footnote_on_lag_is_true_of_each_lag() -> None:
    """Lag is what the footnote says: the log end less what was committed, negative ones too."""
    facts = reported(log_dir("current"))
    rows = [row for group in facts["groups"] for row in group["partitions"]]
    assert rows
    for row in rows:
        if row["lag"] is not None:
            assert row["lag"] == row["logEnd"] - row["committed"]
        else:
            assert row["logEnd"] is None or row["committed"] is None
