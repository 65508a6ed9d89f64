"""What the screens share, and what a screen is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.browse.lines import Line
from kafkafs.browse.partition_facts import PartitionNotes, check_each, partitions_of
from kafkafs.browse.work import Job, Result, Runner, Steps

if TYPE_CHECKING:
    from kafkafs.time_grammar import TimeGrammar
    from kafkafs.tree.tree import Tree


class Prompt(NamedTuple):
    """A question in the last line: its label, and what gets the answer."""

    label: str
    then: Callable[[str], None]


@dataclass(slots=True)
class BrowseSession:
    """The source, and what was found out in it.

    Attributes:
        tree: the source's tree: schemas, masks and the form of values are its options.
        runner: does what may take long.
        grammar: returns the grammar of times, as of now.
        save: appends bytes to a file that a person named; returns what was done, in words.
        copy: hands a text to the terminal's clipboard.
        is_unicode: whether the terminal shows more than ASCII.
        message: the line above the keys.
        job: work that Esc stops; None for none.
        prompt: a question that waits for its answer.
        opened: a screen to be shown next.
        partitions: the partitions by name.
    """

    tree: Tree
    runner: Runner
    grammar: Callable[[], TimeGrammar]
    save: Callable[[str, bytes], str]
    copy: Callable[[bytes], None]
    is_unicode: bool = True
    message: str = ""
    job: Job | None = None
    prompt: Prompt | None = None
    opened: Screen | None = None
    partitions: dict[str, PartitionNotes] = field(default_factory=dict)

    def list_partitions(self) -> list[PartitionNotes]:
        """Return the partitions as of now; what is known of one is kept."""
        found = [self.partitions.get(each.name, each) for each in partitions_of(self.tree)]
        self.partitions = {each.name: each for each in found}
        return found

    def start(self, steps: Steps[Result], then: Callable[[Result], None]) -> None:
        """Start work that Esc stops; earlier work is stopped."""
        if self.job is not None:
            self.job.stop()
        self.job = self.runner.start(steps, then)
        self.end_jobs()

    def end_jobs(self) -> None:
        """Tell why work has failed, and forget what has ended."""
        checks = [each for each in self.partitions.values() if each.check is not None]
        for job in (self.job, *(each.check for each in checks)):
            if job is not None and job.is_over and job.error is not None:
                self.message, job.error = str(job.error), None
        if self.job is not None and self.job.is_over:
            self.job = None
        for each in checks:
            if not each.is_under_check:
                each.check = None

    def check(self, *parts: PartitionNotes) -> None:
        """Start a check of partitions, one after the other, beside the other work; a second call stops it."""
        running = next((each.check for each in parts if each.is_under_check), None)
        if running is not None:
            running.stop()
            self.message = "stopped the check"
            return
        logs = [each for each in parts if each.log is not None]
        mask_of = self.tree.context.mask_of
        if any(each.log is not None and mask_of(each.log.topic_partition.topic) for each in logs):
            self.message = "findings may have numbers from records, which the mask hides"
            return

        def tell(_: None) -> None:
            damage = logs[0].damage if len(logs) == 1 else f"{len(logs)} partitions"
            self.message = f"checked {logs[0].name if len(logs) == 1 else ''}: {damage}".replace(
                " :", ""
            )

        job = self.runner.start(check_each(self.tree, logs), tell) if logs else None
        for each in logs:
            each.check = job

    def ask(self, label: str, then: Callable[[str], None]) -> None:
        """Ask for a text in the last line."""
        self.prompt = Prompt(label, then)

    def save_line(self, line: bytes) -> None:
        """Ask for a file, and append a record's line to it."""
        self.ask("append the line to file: ", partial(self._save, line))

    def _save(self, line: bytes, path: str) -> None:
        if path:
            self.message = self.save(path, line + b"\n")


class Screen:
    """Something that is shown: it draws itself as lines, and takes keys.

    Args:
        session: see `BrowseSession`.

    Attributes:
        title: its path in the tree.
        keys: what its keys do, for the last line.
    """

    title = ""
    keys = ""

    def __init__(self, session: BrowseSession) -> None:
        self.session = session

    def lines(self, width: int, height: int) -> list[Line]:
        """Return at most `height` lines of at most `width` columns."""
        return []

    def press(self, key: str) -> None:
        """Do what a key asks for."""

    def refresh(self) -> None:
        """Look at the source again."""

    def resume(self, above: Screen) -> None:
        """Be shown again after the screen above was left."""
