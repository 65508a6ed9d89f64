"""The recipes of kafkafs/docs/clients.md, and commands with the names that Kafka's distribution gives them."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.checkout import ROOT
from tests.kafka import jars

PAGE = ROOT / "kafkafs" / "docs" / "clients.md"
SERVED, NEW = "127.0.0.1:19092", "127.0.0.1:9092"
_BLOCK = re.compile(
    r"^<!-- (recipe|lines of): (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_TOOLS = {
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "connect-mirror-maker.sh": "org.apache.kafka.connect.mirror.MirrorMaker",
}


@cache
def blocks(kind: str) -> Mapping[str, str]:
    """The blocks of the page by name: of kind "recipe", or "lines of" a file."""
    return {name: text for found, name, text in _BLOCK.findall(PAGE.read_text()) if found == kind}


def recipe(name: str, bootstrap: str, new: str = NEW) -> str:
    """A recipe with the addresses of these servers."""
    return blocks("recipe")[name].replace(SERVED, bootstrap).replace(NEW, new)


def environment(folder: Path) -> dict[str, str]:
    """The environment of a shell in which Kafka's commands are found; they are written to a folder."""
    for name, main in _TOOLS.items():
        classes = jars.mirror_jars() if "mirror" in name else jars.jars()
        command = [
            "java", jars.HEAP, "-XX:TieredStopAtLevel=1",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{classes}/*", main,
        ]  # fmt: skip
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)
    path = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path}
