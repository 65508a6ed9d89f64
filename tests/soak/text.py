"""Text safety: every code point and lone byte in random company, in all that is shown of records and names."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import orjson
from click.testing import CliRunner

from engine.lines.record_line import LineOptions, record_line
from engine.record.attributes import TimestampType
from engine.record.record import Record
from kafkafs.cli import cli
from kafkafs.decode.shown_text import plain_json, printable
from tests.builders import Rec, batch, write_segment
from tests.engine.kernel.test_text_rules import (
    DANGEROUS,
    FASTEST,
    KERNELS,
    check,
    check_safe,
    lines_of,
)
from tests.soak.parts import Job, Part

POINTS = 0x110000
ALL = POINTS + 256
"""Code points, surrogates among them, and lone bytes."""
STEP = 524_287
"""Leads from one input to the next through all of them, since it has no divisor in common with ALL."""
BATCH = 256
MODES = ("auto", "auto", "text", "json", "base64", "hex", "none")
COMPANY = (
    b"", b"a", b"\x1b[", b"\x1b]0;", b"\xe2\x80", b"\x80", b"\xff", b'"', b"\\", b"\\u", b"{", b"}\n{", "é".encode(),
    "\u202e".encode(), "\u0301".encode(), "\ud800".encode("utf-8", "surrogatepass"), "👩\u200d👩".encode(), b"\r\n", b"\0",
)  # fmt: skip
COMMANDS: tuple[Callable[[str], list[str]], ...] = (
    lambda source: ["check", source],
    lambda source: ["stats", source],
    lambda source: ["offsets", source, "--json"],
    lambda source: ["stats", source, "--json"],
    lambda source: ["check", source, "--json"],
    lambda source: ["plan", source],
    lambda source: ["cat", source, "no\nsuch\x1b[2J/path"],
)


def content(number: int, seed: int, random: Random) -> bytes:
    """One code point or byte of ALL in company."""
    point = (number * STEP + seed) % ALL
    if point < POINTS:
        made = chr(point).encode("utf-8", "surrogatepass")
    else:
        made = bytes([point - POINTS])
    kind = random.random()
    if kind < 0.3:
        return made
    if kind < 0.6:
        return random.choice(COMPANY) + made
    if kind < 0.8:
        return made + random.choice(COMPANY) + made
    return made[: random.randrange(1, len(made) + 1)] + random.choice(COMPANY)


def in_json(data: bytes, random: Random) -> bytes:
    """Text as a value or as a name in a JSON document, escaped or not."""
    text = data.decode("utf-8", "replace")
    value = json.dumps(text, ensure_ascii=random.random() < 0.5)
    return random.choice(('{"k":%s}', "[%s]", '{%s:[{"x":0}]}')).replace("%s", value).encode()


def check_json(contents: list[bytes]) -> None:
    """Embedded JSON means the same, on one harmless line."""
    lines = lines_of([Rec(data) for data in contents], "auto", FASTEST)
    check_safe(lines)
    for data, line in zip(contents, lines, strict=True):
        assert orjson.loads(line)["value"] == json.loads(data), (data, line)


def check_names(contents: list[bytes]) -> None:
    """What is shown of names: in record lines, in messages, in JSON."""
    for data in contents:
        name = data.decode("utf-8", "surrogateescape")
        shown = printable(name)
        assert shown.isprintable(), name
        plain = plain_json({"name": name, name: 0})
        assert plain.isascii(), name
        json.loads(plain)
        record = Record(0, 0, TimestampType.CREATE_TIME, None, None)
        line = record_line(record, LineOptions(name, 0))
        check_safe([line])
        orjson.loads(line)


def check_commands(data: bytes, random: Random) -> None:
    """What commands say of a source whose folder, files and records have this name."""
    name = data.translate(None, b"/\0")[:200] + b"-0"
    with tempfile.TemporaryDirectory(prefix="soak-text-") as work:
        log_dir = Path(work, "data")
        log_dir.mkdir()
        folder = Path(str(log_dir), name.decode("utf-8", "surrogateescape"))
        write_segment(folder, [batch([Rec(data, data, headers=[(data, data)])]), b"\xff" * 70])
        (folder / "leader-epoch-checkpoint").write_bytes(data)
        (folder / "partition.metadata").write_bytes(b"version: " + data)
        words = random.choice(COMMANDS)(str(log_dir))
        ended = CliRunner().invoke(cli, words)
        crash = ended.exception
        assert crash is None or isinstance(crash, SystemExit), (words, repr(crash))
        shown = (ended.stdout_bytes + ended.stderr_bytes).decode()
        assert DANGEROUS.isdisjoint(shown.replace("\n", "")), (words, shown)


def show_text(job: Job) -> None:
    """Code points and bytes, a batch of them in one batch of records."""
    for numbers in job.batches(BATCH):
        random = Random(f"{job.seed} {numbers.start}")
        contents = [content(number, job.seed, random) for number in numbers]
        writers = KERNELS if random.random() < 0.1 else FASTEST
        plain = [data for data in contents if not data.lstrip().startswith((b"{", b"["))]
        for call in (
            lambda plain=plain, random=random, writers=writers: check(
                plain, random.choice(MODES), writers
            ),
            lambda contents=contents, random=random: check_json(
                [in_json(data, random) for data in contents]
            ),
            lambda contents=contents: check_names(contents),
            lambda contents=contents, random=random: check_commands(
                random.choice(contents), random
            ),
        ):
            try:
                call()
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                job.find(numbers.start, f"{type(error).__name__}: {error}", count=len(numbers))


PARTS = (
    Part(
        "text", "every code point and lone byte in records, names and messages", "texts", show_text
    ),
)
