"""What Kafka's classes answer to scripts of records; run as a module, it writes the golden file anew."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kafka import jars
from tests.record_scripts import GOLDEN, random_script

HARNESS = Path(__file__).with_name("Records.java")
SCRIPTS = range(120)
LARGEST = 40


def kafka_answers(lines: Sequence[str]) -> list[str]:
    """One answer a line."""
    command = jars.java_command(jars.CURRENT, str(HARNESS))
    text = "".join(line + "\n" for line in lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def write_golden() -> None:
    """Lines and answers, one after the other."""
    lines = [line for seed in SCRIPTS for line in random_script(seed, LARGEST)]
    pairs = zip(lines, kafka_answers(lines), strict=True)
    text = "".join(f"{line}\n{answer}\n" for line, answer in pairs)
    GOLDEN.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    write_golden()
