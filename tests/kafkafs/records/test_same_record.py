"""A record is the same record in each form, for each fate: what a reader sees does not depend on the view.

The truth is the script that the log is written from. Control records are seen as lines only, and what lies below the log
start only where the files themselves are shown: in records/ and in a dump.
"""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import kafkafs
from kafkafs.cli import cli
from tests import builders
from tests.builders import CODECS, Producer, Rec
from tests.kafkafs.built_logs import BuiltLog
from tests.kafkafs.serve.consumed import Consumer

SEEDS = int(os.environ.get("KAFKAFS_RECORDS_SEEDS", "6"))
NAME = "orders-0"
CONTROL = "control"
Contents = Sequence[bytes | None]
CONTENTS: Contents = (b'{"a":1}', b"text", b"\xff\x00", b"", None)
UNUSED_BITS = 0x30
"""Of a message of magic 0 or 1: those of transactions and control records in magic 2."""


class Made(NamedTuple):
    """A record as it is seen; its state is that of its transaction, None outside of one."""

    offset: int
    key: bytes | None
    value: bytes | None
    state: str | None


Shown = list[Made]
View = Callable[["Log", bool], Shown]


class Log(NamedTuple):
    """A log dir and the truth about it: all records in their order, control records among them."""

    path: Path
    start: int
    stable: int
    records: Shown

    def seen(self, *, committed: bool) -> Shown:
        """What a consumer sees."""
        return [
            each
            for each in self.records
            if each.offset >= self.start and each.state != CONTROL
            if not committed or (each.offset < self.stable and each.state != "aborted")
        ]


class Script:
    """Writes a log of all kinds of batches, of keys and values from a choice."""

    def __init__(self, seed: int, keys: Contents = CONTENTS, values: Contents = CONTENTS) -> None:
        self.random = random.Random(seed)
        self.keys, self.values = keys, values
        self.next = 0
        self.made: Shown = []
        self.open: dict[int, tuple[int, list[int]]] = {}
        self.batches: list[bytes] = []

    def records(self, state: str | None) -> list[Rec]:
        count = self.random.randint(1, 4)
        made = [
            Rec(self.random.choice(self.values), self.random.choice(self.keys))
            for _ in range(count)
        ]
        for each in made:
            self.made.append(Made(self.next, each.key, each.value, state))
            self.next += 1
        return made

    def old(self) -> None:
        """Messages of magic 0 and 1, with bits that mean nothing there."""
        magic, codec = self.random.choice([0, 1]), self.random.choice(CODECS[:3])
        base = self.next
        records = self.records(None)
        if codec:
            self.batches.append(builders.message_set(records, base, codec, magic=magic))
        else:
            self.batches += [
                builders.message(
                    base + n, each.key, each.value, magic=magic, attributes=UNUSED_BITS
                )
                for n, each in enumerate(records)
            ]

    def plain(self) -> None:
        base, codec = self.next, self.random.choice(CODECS)
        self.batches.append(builders.batch(self.records(None), base, codec))

    def transaction(self) -> None:
        """A batch of a producer's transaction, which is open so far."""
        producer, base = self.random.randint(1, 3), self.next
        _, places = self.open.setdefault(producer, (base, []))
        records = self.records("open")
        places += range(len(self.made) - len(records), len(self.made))
        data = builders.batch(
            records, base, self.random.choice(CODECS), transactional=True,
            producer=Producer(id=producer, sequence=len(places)),
        )  # fmt: skip
        self.batches.append(data)

    def end(self) -> None:
        if not self.open:
            return
        producer = self.random.choice(list(self.open))
        commit = self.random.random() < 0.5
        for place in self.open.pop(producer)[1]:
            state = "committed" if commit else "aborted"
            self.made[place] = self.made[place]._replace(state=state)
        self.batches.append(builders.end_marker(self.next, Producer(id=producer), commit=commit))
        self.made.append(Made(self.next, None, None, CONTROL))
        self.next += 1

    def log(self, path: Path) -> Log:
        log = BuiltLog(path, NAME)
        for magics in (
            (self.old,),
            (self.plain, self.transaction, self.transaction, self.end, self.end),
        ):
            for _ in range(3):
                base, self.batches = self.next, []
                for _ in range(self.random.randint(3, 9)):
                    self.random.choice(magics)()
                if self.next > base:
                    log.segment(self.batches, base)
        start = self.random.randint(0, self.next // 2)
        log.start_at(start)
        stable = min((first for first, _ in self.open.values()), default=self.next)
        return Log(path, start, stable, self.made)


def run(*words: str | Path) -> str:
    done = CliRunner().invoke(cli, list(map(str, words)))
    assert done.exit_code in (0, 1), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.stdout


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def of_lines(text: str) -> Iterator[Made]:
    for line in map(json.loads, text.splitlines()):
        state = line.get("transaction", {}).get("state")
        if CONTROL in line:
            yield Made(line["offset"], None, None, CONTROL)
        else:
            yield Made(line["offset"], _bytes(line["key"]), _bytes(line["value"]), state)


def without_control(shown: Iterator[Made]) -> Shown:
    return [each for each in shown if each.state != CONTROL]


def files(log: Log, committed: bool) -> Shown:
    """The files of records/ or committed/, from the log start on."""
    folder = "committed" if committed else "records"
    names = sorted(each.stem for each in (log.path / NAME).glob("*.log"))
    texts = [
        run("cat", log.path, f"{NAME}/{folder}/{name}.jsonl", "--values", "base64")
        for name in names
    ]
    return [each for each in without_control(of_lines("".join(texts))) if each.offset >= log.start]


def chosen_lines(log: Log, committed: bool) -> Shown:
    """What `grep` finds of everything."""
    words = [
        "grep",
        "-v",
        "nowhere",
        log.path,
        "--values",
        "base64",
        "-t",
        "orders",
        "--from",
        str(log.start),
    ]
    return without_control(of_lines(run(*words, *(["--committed"] if committed else []))))


def single_lines(log: Log, _: bool) -> Shown:
    """Each record that is there alone, in offset/N."""
    text = "".join(
        run("cat", log.path, f"{NAME}/offset/{each.offset}", "--values", "base64")
        for each in log.records
        if each.offset >= log.start
    )
    return without_control(of_lines(text))


def kcat(log: Log, committed: bool) -> Shown:
    """The offsets in the order of `--format`, with keys and values as sizes."""
    words = [
        "grep",
        "-v",
        "nowhere",
        log.path,
        "-t",
        "orders",
        "--from",
        str(log.start),
        "--format",
        "%o %K %S\\n",
    ]
    text = run(*words, *(["--committed"] if committed else []))
    by_offset = {each.offset: each for each in log.records}
    shown = []
    for line in text.splitlines():
        offset, *sizes = map(int, line.split())
        known = by_offset[offset]
        assert sizes == [-1 if each is None else len(each) for each in (known.key, known.value)]
        shown.append(known)
    return shown


def dump(log: Log, _: bool) -> Shown:
    """The files, as DumpLogSegments sees them, from the log start on; a dump has no fates, so those are of the truth."""
    by_offset = {each.offset: each for each in log.records}
    shown: Shown = []
    for line in map(json.loads, run("dump", log.path / NAME, "--json").splitlines()):
        if line["type"] != "record" or CONTROL in line:
            continue
        key, value = (_of_dump(line, side) for side in ("key", "value"))
        shown.append(Made(line["offset"], key, value, by_offset[line["offset"]].state))
    assert [each.offset for each in shown] == [
        each.offset for each in log.records if each.state != CONTROL
    ]
    return [each for each in shown if each.offset >= log.start]


def _of_dump(facts: dict[str, Any], side: str) -> bytes | None:
    text, encoding = facts[side], facts.get(f"{side}Encoding")
    if text is None or encoding is None:
        return None if text is None else str(text).encode()
    return base64.b64decode(text)


COLUMNS = ["offset", "key", "value", "transaction"]
ISOLATION = {False: "read_uncommitted", True: "read_committed"}


def objects(log: Log, committed: bool) -> Shown:
    with closing(kafkafs.open(log.path)) as source:
        records = source["orders"][0].records(isolation=ISOLATION[committed])
        return [Made(each.offset, each.key, each.value, each.transaction) for each in records]


def single_objects(log: Log, _: bool) -> Shown:
    shown = []
    with closing(kafkafs.open(log.path)) as source:
        for each in log.records:
            if each.offset < log.start:
                continue
            if each.state == CONTROL:
                with pytest.raises(KeyError, match="control"):
                    source["orders"][0][each.offset]
                continue
            found = source["orders"][0][each.offset]
            shown.append(Made(found.offset, found.key, found.value, found.transaction))
    return shown


def _of_table(table: Any) -> Shown:
    rows = table.select(COLUMNS).sort_by("offset").to_pylist()
    return [Made(*row.values()) for row in rows]


def arrow(log: Log, committed: bool) -> Shown:
    with closing(kafkafs.open(log.path)) as source:
        scan = source.scan("orders", columns=COLUMNS, isolation=ISOLATION[committed])
        table = scan.to_arrow()
        assert scan.count() == scan.count(checksums=False) == len(table)
        return _of_table(table)


def _exported(log: Log, committed: bool, form: str, *more: str) -> Path:
    target = log.path.parent / f"exported-{form}-{committed}"
    run("export", log.path, target, "--format", form, "-t", "orders", *more,
        *(["--committed"] if committed else []))  # fmt: skip
    return target


def parquet(log: Log, committed: bool) -> Shown:
    return _of_table(
        pq.read_table(_exported(log, committed, "parquet", "--columns", ",".join(COLUMNS)))
    )


def jsonl(log: Log, committed: bool) -> Shown:
    target = _exported(log, committed, "jsonl", "--values", "base64")
    text = "".join(each.read_text() for each in target.glob("topic=*/date=*/*.jsonl"))
    return sorted(of_lines(text))


def sql(log: Log, committed: bool) -> Shown:
    query = 'select "offset", hex(key) as k, hex(value) as v, transaction from orders order by 1'
    words = ["sql", query, log.path, "--json", *(["--committed"] if committed else [])]
    return [
        Made(row["offset"], *(None if row[name] is None else bytes.fromhex(row[name]) for name in "kv"), row["transaction"])
        for row in map(json.loads, run(*words).splitlines())
    ]  # fmt: skip


def fetch(log: Log, committed: bool) -> Shown:
    """What a consumer makes of fetched batches; a Fetch has no fates, so those are of the truth."""
    by_offset = {each.offset: each for each in log.records}
    return [
        Made(each.offset, each.key, each.value, by_offset[each.offset].state)
        for each in Consumer(log.path).records(NAME, committed=committed)
    ]


OF_BOTH: tuple[View, ...] = (
    files, chosen_lines, kcat, objects, arrow, parquet, jsonl, sql, fetch,
)  # fmt: skip
UNCOMMITTED: tuple[View, ...] = (single_lines, single_objects, dump)
CASES = [
    *((view, committed) for view in OF_BOTH for committed in (False, True)),
    *((view, False) for view in UNCOMMITTED),
]


@pytest.fixture(scope="module", params=range(SEEDS))
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Script(request.param).log(tmp_path_factory.mktemp("log") / "data")


@pytest.mark.parametrize(
    ("view", "committed"),
    CASES,
    ids=[f"{view.__name__}-{'committed' if is_one else 'all'}" for view, is_one in CASES],
)
def test_a_record_is_the_same_in_each_form_whatever_became_of_its_transaction(
    log: Log, view: View, committed: bool
) -> None:
    assert view(log, committed) == log.seen(committed=committed)


def test_a_file_has_control_records_and_says_what_is_below_the_log_start(log: Log) -> None:
    names = sorted(each.stem for each in (log.path / NAME).glob("*.log"))
    text = "".join(run("cat", log.path, f"{NAME}/records/{name}.jsonl") for name in names)
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["offset"] for line in lines] == [each.offset for each in log.records]
    assert [CONTROL in line for line in lines] == [each.state == CONTROL for each in log.records]
    below = [line["offset"] for line in lines if line.get("belowLogStart")]
    assert below == list(range(min(log.start, len(lines))))
