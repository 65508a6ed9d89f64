"""The faces that name no offsets: which of them say that something is lost, and which of them ought to."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import NamedTuple

from tests.kafkafs.faces.damage import Damaged
from tests.kafkafs.faces.naming import Run, gone_in, run

TOPIC = "orders"
GROUPS = "__consumer_offsets"


class Answer(NamedTuple):
    """What a command says.

    Attributes:
        face: the command.
        done: how it ended.
        is_due: whether it has to tell of a loss; None where it may, or may not.
        gone: partitions among those it reads whose folders are gone.
        is_whole: whether it reads the whole source, and so has to tell of a folder that it does not follow.
    """

    face: str
    done: Run
    is_due: bool | None
    gone: set[str]
    is_whole: bool = True

    def contradictions(self, node: Damaged) -> Iterator[str]:
        """What does not fit the truth."""
        status = self.done.status
        if status not in (0, 1, 3):
            yield f"{self.face} ends with status {status}: {self.done.told}"
        elif node.linked and self.is_whole and status != 3:
            yield f"{self.face} passes over links with status {status}"
        elif not node.linked and self.is_due is not None and bool(status) != self.is_due:
            yield f"{self.face} ends with status {status}: {self.done.told}"
        if self.is_due and not self.done.told and "Not counted" not in self.done.out:
            yield f"{self.face} says nothing"
        if self.is_whole and not self.gone & node.linked:
            missed = self.gone - gone_in(self.done.told)
            if missed and len(self.gone) <= 4:
                yield f"{self.face} does not name {missed}"


def answers(node: Damaged, gone: set[str]) -> Iterator[Answer]:
    """What the commands say of a log dir.

    Args:
        node: the log dir.
        gone: its partitions that are lost for certain: the metadata assigns them to the node.
    """
    truth = node.truth()
    is_lost = bool(truth or gone)
    own = {name for name in {*truth, *gone} if not name.startswith("__")}
    out, source = node.path.parent / "export", node.path
    yield Answer("grep", run("grep", "-c", ".", source), is_lost, gone)
    yield Answer("stats", run("stats", source), is_lost, gone)
    done = run("export", source, out, "--on-corrupt", "skip")
    yield Answer("export", done, bool(own), {each for each in gone if each in own})
    shutil.rmtree(out, ignore_errors=True)
    of_topic = {name for name in own if name.startswith(f"{TOPIC}-")}
    there = [name for name in node.partitions() if name.startswith(f"{TOPIC}-")]
    if there:
        done = run("sql", f"select count(*) from {TOPIC}", source)
        yield Answer("sql", done, bool(of_topic), gone & of_topic)
        done = run("get", source, TOPIC, "no such key")
        is_told = "not all was searched" in done.told or " gone" in done.told
        yield Answer("get", done, None, gone & of_topic)
        if is_told != bool(of_topic) and not node.linked:
            yield Answer("get", done._replace(status=9), None, set())
    ends = {name for name, lost in truth.items() if node.sound.ends[name] - 1 in lost}
    unsure = ends & node.unsure
    yield Answer("offsets", run("offsets", source), None if unsure else bool(ends or gone), gone)
    if any(name.startswith(f"{GROUPS}-") for name in node.partitions()):
        of_groups = {name for name in {*truth, *gone} if name.startswith(f"{GROUPS}-")}
        may_warn = not of_groups and bool(ends | gone)
        done = run("groups", source)
        yield Answer("groups", done, None if may_warn else bool(of_groups), gone & of_groups)
