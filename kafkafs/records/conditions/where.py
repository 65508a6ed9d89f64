"""A condition on record lines, in jq's language: `.value.amount > 100 and .key == "k7"`.

What is no plain condition libjq runs, in processes of their own. Each has 10 seconds of processor time and 512 MiB of memory for some
records, no environment, and can open no file.
"""

from __future__ import annotations

import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from threading import Lock
from typing import Any, NamedTuple, NoReturn, Self

from engine.budgets import MiB
from kafkafs.records.conditions.condition import (
    UNKNOWN,
    Answer as LineAnswer,
    Known,
    OtherTypeError,
    Truth,
    UndecidedError,
)
from kafkafs.records.conditions.plain_condition import plain_condition

MOST_SECONDS = 10
MOST_MEMORY = 512 * MiB
MOST_LINE = 8 * MiB
"""Bytes of a line that is tried; a longer one counts as failed."""
_MOST_LINES = 1024
_MOST_BYTES = 1 * MiB
_MOST_REASON = 200
_LENGTH = 4
_MISSING = "--where needs {}: pip install 'kafkafs[where]'"
_YES, _NO, _FAILED, _LACKS = b"10e-"
_PROGRAM = """[limit(1; try ((%s
) | if . then 1 else 0 end) catch ("e" + tostring))] | .[0] // 0"""
"""What libjq runs on each line: 1, 0, or "e" and the reason of a failure. Modules can be imported only at a program's
beginning, so that no expression can.
"""
_OTHER_TYPE = ("Cannot index ", "Cannot iterate over ")
"""How the reason begins where a value is of another type than the condition asks for, as in other topics."""


class WhereError(Exception):
    """A condition that cannot be used: jq is missing, it does not compile, or it takes too much time or memory."""


class Answer(NamedTuple):
    """Whether the condition is true of each line; `reason` is why it failed for the first of the failed ones.

    A line counts as one without the field if a value is of another type than the condition asks for, such as text in
    place of an object.
    """

    marks: bytes
    reason: str


class WhereCounts(NamedTuple):
    """What was counted, see `Where`."""

    met: int
    lacking: int
    failed: int
    first: tuple[str, str] | None


class Where:
    """A condition, and the processes that try it. Thread-safe; to be made before other threads start.

    Attributes:
        met: number of records for which the condition is true.
        lacking: number of records that lack the field: they do not match.
        failed: number of records for which the condition failed: they do not match.
        first: the first of the failed ones, and why; of those that lack the field if none failed.

    Raises:
        WhereError: jq is missing, or the text is no expression of jq.
    """

    def __init__(self, text: str, jobs: int) -> None:
        _compiled(text)
        self._text = text
        self._loads = _json_reader()
        self._plain = plain_condition(text)
        self.met = self.lacking = self.failed = 0
        self.first: tuple[str, str] | None = None
        self._lock = Lock()
        self._idle: SimpleQueue[_Process] = SimpleQueue()
        self._all = [_Process(text) for _ in range(jobs)]
        for each in self._all:
            self._idle.put(each)

    def __reduce__(self) -> tuple[type[Where], tuple[str, int]]:
        return Where, (self._text, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._all:
            each.close()

    def truth(self, known: Known) -> Truth:
        """Return of which records the condition is true, as far as that is known without their lines."""
        return UNKNOWN if self._plain is None else self._plain.truth(known)

    def marks(self, lines: Sequence[bytes], name_of: Callable[[int], str]) -> list[bool]:
        """Return of which lines the condition is true.

        Args:
            lines: record lines.
            name_of: returns what to call the record of a line, by its index, in an error.

        Raises:
            WhereError: the condition takes too much time or memory.
        """
        if self._plain is None:
            return self._by_libjq(lines, name_of)
        found, left = self._decided(self._plain.answer, lines, name_of)
        if left:
            others = self._by_libjq([lines[each] for each in left], lambda at: name_of(left[at]))
            for each, mark in zip(left, others, strict=True):
                found[each] = mark
        return found

    def _decided(
        self, condition: LineAnswer, lines: Sequence[bytes], name_of: Callable[[int], str]
    ) -> tuple[list[bool], list[int]]:
        """Return of which lines a condition is true, and the indexes of those that are left to libjq."""
        marks = bytearray()
        left: list[int] = []
        reason = ""
        for index, line in enumerate(lines):
            try:
                if len(line) > MOST_LINE:
                    raise UndecidedError
                result = condition(self._loads(line))
                marks.append(_NO if result is None or result is False else _YES)
            except OtherTypeError as error:
                marks.append(_LACKS)
                reason = reason or str(error)
            except (UndecidedError, ValueError):
                marks.append(_NO)
                left.append(index)
        self._count(Answer(bytes(marks), reason), 0, name_of)
        return [mark == _YES for mark in marks], left

    def _by_libjq(self, lines: Sequence[bytes], name_of: Callable[[int], str]) -> list[bool]:
        found: list[bool] = []
        process = self._idle.get()
        try:
            for some in _batches(lines):
                at = len(found)
                answer = process.answered(some)
                if answer is None:
                    raise WhereError(
                        f"--where took more than {MOST_SECONDS} seconds or {MOST_MEMORY // MiB} MiB"
                        f" for the {len(some)} records from {name_of(at)} on"
                    )
                self._count(answer, at, name_of)
                found += [mark == _YES for mark in answer.marks]
        finally:
            self._idle.put(process)
        return found

    def _count(self, answer: Answer, at: int, name_of: Callable[[int], str]) -> None:
        failed, lacking = answer.marks.count(_FAILED), answer.marks.count(_LACKS)
        with self._lock:
            if (failed and not self.failed) or (lacking and self.first is None):
                place = answer.marks.index(_FAILED if failed else _LACKS)
                self.first = name_of(at + place), answer.reason
            self.met += answer.marks.count(_YES)
            self.failed += failed
            self.lacking += lacking

    def count_met(self, number: int) -> None:
        """Count records that meet the condition, as is known without their lines."""
        with self._lock:
            self.met += number

    def taken(self) -> WhereCounts:
        """Return the counts, and begin anew."""
        found = WhereCounts(self.met, self.lacking, self.failed, self.first)
        self.met = self.lacking = self.failed = 0
        self.first = None
        return found

    def add(self, counts: WhereCounts) -> None:
        """Add the counts of other records."""
        with self._lock:
            if self.first is None or (counts.failed and not self.failed):
                self.first = counts.first
            self.met += counts.met
            self.lacking += counts.lacking
            self.failed += counts.failed


def _batches(lines: Sequence[bytes]) -> Iterable[list[bytes]]:
    some: list[bytes] = []
    size = 0
    for line in lines:
        some.append(line)
        size += len(line)
        if len(some) == _MOST_LINES or size >= _MOST_BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def _json_reader() -> Callable[[bytes], Any]:
    try:
        from orjson import loads
    except ImportError:
        raise WhereError(_MISSING.format("orjson")) from None
    return loads


def _compiled(text: str) -> Any:  # noqa: ANN401 - of libjq
    try:
        import jq
    except ImportError:
        raise WhereError(_MISSING.format("jq")) from None
    try:
        return jq.compile(_PROGRAM.replace("%s", text))
    except ValueError as error:
        reason = " ".join(str(error).split())[:_MOST_REASON]
        raise WhereError(f"--where is no expression of jq: {reason}") from None


class _Process:
    """A process that tries a condition on lines."""

    def __init__(self, text: str) -> None:
        asked, self._asks = os.pipe()
        self._answers, answers = os.pipe()
        with warnings.catch_warnings():  # that libraries have started threads
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if not self._pid:
            os.close(self._asks)
            os.close(self._answers)
            _serve(text, asked, answers)
        os.close(asked)
        os.close(answers)

    def answered(self, lines: Sequence[bytes]) -> Answer | None:
        """Return the answers for some lines; None if the process has ended."""
        sent = [line if len(line) <= MOST_LINE else b"" for line in lines]
        try:
            _write(self._asks, b"\n".join(sent))
            answer = _read(self._answers)
        except BrokenPipeError:
            return None
        if answer is None:
            return None
        return Answer(answer[: len(lines)], answer[len(lines) :].decode("utf-8", "replace"))

    def close(self) -> None:
        """End the process."""
        os.close(self._asks)
        os.close(self._answers)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _serve(text: str, asked: int, answers: int) -> NoReturn:
    """Answer until nobody asks; never return."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's affair
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        os.environ.clear()
        program = _compiled(text)  # again: a program has the environment of its compilation
        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
        for limit, value in (
            (resource.RLIMIT_AS, used + MOST_MEMORY),
            (resource.RLIMIT_NOFILE, 0),
            (resource.RLIMIT_NPROC, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (value, value))
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        while (lines := _read(asked)) is not None:
            end = int(time.process_time()) + MOST_SECONDS
            end = end if most == resource.RLIM_INFINITY else min(end, most)
            resource.setrlimit(resource.RLIMIT_CPU, (end, most))
            _write(answers, _answered(program, lines))
        status = 0
    finally:
        os._exit(status)


def _answered(program: Any, lines: bytes) -> bytes:  # noqa: ANN401 - of libjq
    texts = lines.split(b"\n")
    marks = bytearray()
    reasons = {_FAILED: "", _LACKS: ""}
    results = iter(_results(program, [text for text in texts if text]))
    for text in texts:
        result = next(results) if text else f"eits line is longer than {MOST_LINE // MiB} MiB"
        if isinstance(result, str):
            reason = result[1:]
            marks.append(_LACKS if reason.startswith(_OTHER_TYPE) else _FAILED)
            reasons[marks[-1]] = reasons[marks[-1]] or reason[:_MOST_REASON]
        else:
            marks.append(_YES if result else _NO)
    return bytes(marks) + (reasons[_FAILED] or reasons[_LACKS]).encode("utf-8", "replace")


def _results(program: Any, texts: list[bytes]) -> list[int | str]:  # noqa: ANN401 - of libjq
    """Return what a program says of each text; of one that is no JSON, why."""
    try:
        found = list(program.input_text(b"\n".join(texts).decode()))
    except ValueError as error:
        found = [f"e{error}"] if len(texts) == 1 else []
    if len(found) == len(texts):
        return found
    return [result for text in texts for result in _results(program, [text])]


def _write(pipe: int, data: bytes) -> None:
    view = memoryview(len(data).to_bytes(_LENGTH, "little") + data)
    while view:
        view = view[os.write(pipe, view) :]


def _read(pipe: int) -> bytes | None:
    """Read a message; None at the end."""
    size = _exactly(pipe, _LENGTH)
    return None if size is None else _exactly(pipe, int.from_bytes(size, "little"))


def _exactly(pipe: int, size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        data = os.read(pipe, size - len(found))
        if not data:
            return None
        found += data
    return bytes(found)
