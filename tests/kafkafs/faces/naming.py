"""The faces that name offsets: what each says is lost, by partition, of a whole log dir."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

import kafkafs
from engine.clock import SystemClock
from engine.errors import KafkaStorageError
from engine.log.log_directory import open_source
from engine.log.partition_log import PartitionLog
from engine.log.segment.damage import DamageKind
from kafkafs.cli import cli
from kafkafs.exit_codes import EXIT_USAGE
from kafkafs.report.facts import FactsReader
from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.records.partition_fetch import FetchRules
from kafkafs.tree.tree import Tree
from tests.kafkafs.faces.damage import METADATA, Damaged
from tests.kafkafs.serve.consumed import Consumer, bytes_of

_GONE = re.compile(
    r"^(?:kafkafs: )?(\S+): offsets? (\d+)(?: to (\d+))?(?: \(\d+\))? (?:is|are) (?:gone|missing)"
)
MOST_OFFSETS = 20_000
_FOLDER = re.compile(r"folder of (\S+) is gone|folders of \d+ partitions are gone: ([^;]*)")


class RefusedError(Exception):
    """A command refuses a source."""


class Said(NamedTuple):
    """What a face says.

    Attributes:
        status: of a command; 1 for another face that tells of a loss.
        lost: offsets by partition.
        gone: partitions whose folders are gone.
        shown: offsets that it shows, by partition.
    """

    status: int
    lost: dict[str, set[int]]
    gone: set[str]
    shown: dict[str, set[int]]


class Run(NamedTuple):
    """A command that ran."""

    status: int
    out: str
    told: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Its lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*words: str | Path) -> Run:
    """Run a command."""
    done = CliRunner().invoke(cli, list(map(str, words)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Run(done.exit_code, done.stdout, done.stderr)


def gone_in(told: str) -> set[str]:
    """The lost partitions in what a command told."""
    found: set[str] = set()
    for one, several in _FOLDER.findall(told):
        found |= {one} if one else set(several.split(" and ")[0].split(", "))
    return found


def ends_in(told: str) -> dict[str, set[int]]:
    """The offsets that are gone, in what a command told."""
    found: dict[str, set[int]] = defaultdict(set)
    for line in told.splitlines():
        if match := _GONE.match(line):
            first, last = int(match[2]), int(match[3] or match[2])
            found[match[1]] |= between(first, last + 1)
    return found


def between(first: int, following: int) -> set[int]:
    """The offsets of a range; of a huge one, those at its start."""
    return set(range(first, min(following, first + MOST_OFFSETS)))


def of_errors(
    errors: Iterable[dict[str, Any]], shown: dict[str, set[int]], ends: dict[str, int]
) -> dict[str, set[int]]:
    """The offsets of error lines; where they do not state a bound, it is the next record shown.

    A record that cannot be decoded is not lost: its bytes are there.
    """
    lost: dict[str, set[int]] = defaultdict(set)
    for facts in errors:
        name = next((part for part in facts["file"].split("/") if part in ends), None)
        first, last = facts["firstOffset"], facts["lastOffset"]
        if first is None or name is None or "record" in facts:
            continue
        if last is None:
            last = min((each for each in shown[name] if each >= first), default=ends[name]) - 1
        lost[name] |= between(first, last + 1)
    return {name: found - shown[name] for name, found in lost.items()}


def of_losses(losses: Iterable[dict[str, Any]], ends: dict[str, int]) -> dict[str, set[int]]:
    """The offsets of losses in JSON."""
    lost: dict[str, set[int]] = defaultdict(set)
    for loss in losses:
        following = loss["nextOffset"]
        if loss["firstOffset"] is not None and loss["partition"] in ends:
            end = ends[loss["partition"]] if following is None else following
            lost[loss["partition"]] |= between(loss["firstOffset"], end)
    return lost


def cat(node: Damaged) -> Said:
    done = run("cat", node.path, "--topic", "*")
    shown: dict[str, set[int]] = defaultdict(set)
    errors = []
    for line in done.objects:
        if "error" in line:
            errors.append(line["error"])
        else:
            shown[f"{line['topic']}-{line['partition']}"].add(line["offset"])
    lost = of_errors(errors, shown, node.sound.ends)
    for name, offsets in ends_in(done.told).items():
        lost.setdefault(name, set()).update(offsets)
    return Said(done.status, lost, gone_in(done.told), shown)


def tree(node: Damaged) -> Said:
    """The files of records/, and the problems for logs without one."""
    with closing(open_source(str(node.path))) as opened:
        shown_tree = Tree(opened)
        shown: dict[str, set[int]] = defaultdict(set)
        errors: list[dict[str, Any]] = []
        for name in node.partitions():
            folder: Any = shown_tree.resolve(f"{name}/records")
            for entry in list(folder.entries(0)):
                if entry.name.endswith(".jsonl"):
                    file: Any = shown_tree.resolve(f"{name}/records/{entry.name}")
                    content = file.open()
                    for line in map(json.loads, content.read(0, content.size).splitlines()):
                        if "error" in line:
                            errors.append(line["error"])
                        else:
                            shown[name].add(line["offset"])
        return with_problems(shown_tree.context.problems, errors, shown, node)


def with_problems(
    problems: Iterable[Any], errors: list[dict[str, Any]], shown: Any, node: Damaged
) -> Said:
    lost = of_errors(errors, shown, node.sound.ends)
    gone, count = set(), len(errors)
    for each in problems:
        is_lost = each["kind"] == "missing"
        count += is_lost
        if (
            is_lost
            and each["file"] == each["partition"]
            and each["partition"] not in node.partitions()
        ):
            gone.add(each["partition"])
        elif is_lost:
            for name, offsets in ends_in(f"{each['partition']}: {each['reason']}").items():
                lost.setdefault(name, set()).update(offsets)
    return Said(int(bool(count)), lost, gone, shown)


def python(node: Damaged) -> Said:
    shown: dict[str, set[int]] = defaultdict(set)
    errors: list[dict[str, Any]] = []
    with kafkafs.open(node.path) as opened:
        for topic in sorted({name.rpartition("-")[0] for name in node.partitions()}):
            columns = ["partition", "offset", "_corrupt"]
            rows = opened.scan(topic, columns=columns, on_corrupt="row").to_arrow().to_pylist()
            for row in rows:
                name = f"{topic}-{row['partition']}"
                if row["_corrupt"] is None:
                    shown[name].add(row["offset"])
                else:
                    errors.append(json.loads(row["_corrupt"]))
        gone = {
            each.partition
            for each in opened.problems
            if each.kind == "missing" and each.file == each.partition
        }
    met = {name: shown[name] | node.controls(name) for name in node.partitions()}
    lost = of_errors(errors, met, node.sound.ends)
    return Said(int(bool(errors or gone)), lost, gone, shown)


def check(node: Damaged) -> Said:
    done = run("check", node.path, "--json", "-j1")
    losses = [
        loss
        for each in done.objects
        for loss in (each.get("losses", ()) if each["type"] == "partition" else [each])
        if "kind" in loss
    ]
    lost = of_losses([each for each in losses if each["kind"] != "partition"], node.sound.ends)
    gone = {each["partition"] for each in losses if each["kind"] == "partition"}
    return Said(done.status, lost, gone, {})


def rebuild(node: Damaged) -> Said:
    target = (node.room or node.path.parent) / "target"
    done = run("rebuild", node.path, target, "--dry-run", "--json", "--allow-empty")
    if done.status == EXIT_USAGE:
        raise RefusedError(done.told)
    assert done.out, done
    facts, status = json.loads(done.out), done.status
    lost: dict[str, set[int]] = defaultdict(set)
    for partition in facts["partitions"]:
        # What no broker loads is left out, and is not lost in the source.
        own = [each for each in partition["dropped"] if each["kind"] not in set(DamageKind)]
        left_out = {
            (each["file"], each["position"])
            for each in own
            if each["kind"] not in ("misplaced", "duplicate")  # readers say `offset_order` of these
        }
        for each in partition["losses"]:
            if (each.get("file"), each.get("position")) not in left_out:
                lost[partition["partition"]] |= between(each["firstOffset"], each["nextOffset"])
        # A batch that states wrong offsets has its own again in the result; readers of the source leave it out. Where
        # random bytes hit nothing but a base offset, the truth does not know that a rebuild mends it.
        is_mended = any(each["kind"] == "misplaced" and not each["isLoss"] for each in own)
        if is_mended and partition["partition"] not in node.moved:
            for each in partition["kept"]:
                if each.get("madeAnew"):
                    status = status or 1
                    lost[partition["partition"]] |= between(each["firstOffset"], each["nextOffset"])
    gone = {each["path"] for each in facts["leftOut"] if "folder of" in each["reason"]}
    return Said(status, lost, gone, {})


def plan(node: Damaged) -> Said:
    done = run("plan", node.path, "--json")
    told = [each.get("loss", each) for each in done.objects if each["kind"] == "loss"]
    lost = of_losses(told, node.sound.ends)
    gone = {
        f"{each['topic']}-{each['partition']}"
        for each in done.objects
        if each["kind"] == "lostFolder"
    }
    return Said(done.status, lost, gone, {})


def report(node: Damaged) -> Said:
    with closing(open_source(str(node.path))) as opened:
        reader = FactsReader(
            opened,
            [str(node.path)],
            takes=None,
            jobs=1,
            clock=SystemClock(),
            advance=lambda _: None,
        )
        facts = reader.read()
    losses = [each.to_json() for each in facts.losses]
    lost = of_losses([each for each in losses if each["kind"] != "partition"], node.sound.ends)
    gone = {each["partition"] for each in losses if each["kind"] == "partition"}
    return Said(int(not facts.is_sound), lost, gone, {})


def serve(node: Damaged) -> Said:
    """What a consumer that begins at offset 0 is told, and the problems that the server's log has."""
    consumer = Consumer(node.path, rules=FetchRules(skip_damaged=True))
    strict = Consumer(node.path)
    shown: dict[str, set[int]] = defaultdict(set)
    lost: dict[str, set[int]] = defaultdict(set)
    for name in set(node.partitions()) - {METADATA}:
        log = consumer.log(name)
        _fetch_all(log, consumer, strict, name, shown[name], lost[name])
    from engine.verdict.source_losses import source_problems

    said = with_problems(source_problems(consumer.cluster.logs.source), [], shown, node)
    for name, offsets in said.lost.items():
        lost[name] |= offsets
    return said._replace(lost=lost, status=int(bool(said.status or any(lost.values()))))


def _lost_before(strict: Consumer, name: str, offset: int, base: int) -> set[int]:
    """The offsets before a batch that a server calls lost where one is fetched.

    A gap before a segment that begins with damage is none of them: the log of the server tells.
    """
    before = list(strict.cluster.logs.source.problems)
    if strict.fetch(name, offset).error != ErrorCode.CORRUPT_MESSAGE:
        return set()
    new = [each for each in strict.cluster.logs.source.problems if each not in before]
    files = [Path(each["file"]).name for each in new if each["kind"] != "missing"]
    bases = [int(file[:20]) for file in files if file[:20].isdigit()]
    return between(max(offset, min(bases, default=offset)), base)


def _fetch_all(
    log: PartitionLog,
    consumer: Consumer,
    strict: Consumer,
    name: str,
    shown: set[int],
    lost: set[int],
) -> None:
    from engine.record.memory_records import MemoryRecords

    view = log.view()
    offset = view.log_start_offset
    while offset < view.log_end_offset:
        pieces = consumer.fetch(name, offset).pieces
        following = offset
        for batch in MemoryRecords(bytes_of(pieces)).batches():
            with suppress(KafkaStorageError):  # a wrapper that cannot be opened
                base = batch.base_offset
                if base > following:
                    lost |= _lost_before(strict, name, following, base)
            try:
                offsets = {each.offset for each in batch.records()}
            except KafkaStorageError:
                offsets = {batch.last_offset}  # they are sent, and nobody can decode them
            else:
                shown |= offsets
            if not offsets:
                skipped = between(max(batch.base_offset, offset), batch.next_offset)
                error = strict.fetch(name, max(batch.base_offset, offset)).error
                if error == ErrorCode.CORRUPT_MESSAGE:
                    lost |= skipped
            following = max(following, batch.next_offset)
        if following == offset:
            break
        offset = following


Face = Callable[[Damaged], Said]
NAMING: tuple[Face, ...] = (cat, tree, python, check, rebuild, plan, report, serve)
READERS = frozenset({"cat", "tree", "python", "serve", "mount", "client of serve", "Spark"})
"""Those that show records, too."""
