"""Kafka's own jars of any release, resolved by Maven once into a cache folder, and its tools run from them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

CURRENT = os.environ.get("KAFKAFS_KAFKA_VERSION") or "4.4.0"
"""The version that judges; the suite also runs with 4.3.1 here, as kafkafs/docs/testing.md says."""
PREVIOUS = "4.3.1"
"""It judges a part of what the current version judges."""
LEGACY = "2.8.2"
FLINK = "2.0.2"
HEAP = "-Xmx1g"
_QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafkafs</groupId><artifactId>{name}</artifactId><version>0</version>
<dependencies>{dependencies}</dependencies></project>
"""
_DEPENDENCY = "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>{3}</dependency>"
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_TESTS = "<classifier>test</classifier>"
_PACKED = "<classifier>all</classifier><type>tar.gz</type>"
REGISTRY = "2.6.13.Final"
"""Of Apicurio's registry: later releases need Java 21."""
CONNECTOR = "4.2.0"
# Maven Central has no connector for the 4.3 engine; this one runs on it. Its token provider comes from
# another release because some mirrors lack the matching one, and nothing here uses tokens.
_CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def missing_tool() -> str | None:
    """Why no Kafka can be run here, with the command that helps; None when all is there."""
    gone = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if gone:
        return f"{' and '.join(gone)} not found: apt-get install openjdk-17-jdk-headless maven"
    return None


def cache_folder() -> Path:
    """Where jars and generated data stay between runs: $KAFKAFS_KAFKA_CACHE or below ~/.cache."""
    stated = os.environ.get("KAFKAFS_KAFKA_CACHE")
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkafs" / "kafka"
    return Path(stated) if stated else default


def release(version: str) -> tuple[int, ...]:
    """A version as numbers, to compare."""
    return tuple(int(part) for part in version.split("."))


def jars(version: str = CURRENT) -> Path:
    """The folder with the broker's jars of that version; the first call downloads them (about 100 MB)."""
    wanted = [("org.apache.kafka", "kafka_2.13", version), ("org.slf4j", "slf4j-simple", "1.7.36")]
    if release(version) >= (3, 3):  # the tools left the core jar step by step
        wanted.append(("org.apache.kafka", "kafka-tools", version))
    return _resolved(f"jars-{version}", wanted)


def connector_jars() -> list[Path]:
    """Spark's Kafka connector with what PySpark does not bring along; the first call downloads 10 MB."""
    return sorted(_resolved(f"spark-connector-{CONNECTOR}", _CONNECTOR, alone=True).glob("*.jar"))


def mirror_jars() -> Path:
    """The folder with MirrorMaker 2 of the previous version; the first call downloads 34 MB."""
    wanted = [
        ("org.apache.kafka", "connect-mirror", PREVIOUS),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    return _resolved(f"mirror-{PREVIOUS}", wanted)


def streams_jar() -> Path:
    """Kafka Streams of the previous version, without RocksDB; it runs on the jars of MirrorMaker."""
    wanted = [("org.apache.kafka", "kafka-streams", PREVIOUS)]
    return next(_resolved(f"streams-{PREVIOUS}", wanted, alone=True).glob("*.jar"))


def flink_jars() -> Path:
    """The folder with Flink and its Kafka connector; the first call downloads 81 MB."""
    wanted = [
        ("org.apache.flink", "flink-clients", FLINK),
        ("org.apache.flink", "flink-connector-base", FLINK),
        ("org.apache.flink", "flink-connector-kafka", "4.0.1-2.0"),
        ("org.slf4j", "slf4j-simple", "1.7.36"),
    ]
    return _resolved(f"flink-{FLINK}", wanted)


def tiered_storage_jar() -> Path:
    """LocalTieredStorage of the previous version, which is part of its own tests (those of 4.4.0 are not published)."""
    wanted = [("org.apache.kafka", "kafka-storage", PREVIOUS)]
    folder = _resolved(f"tiered-storage-{PREVIOUS}", wanted, alone=True, more=_TESTS)
    return next(folder.glob("*.jar"))


def registry_jar() -> Path:
    """The jar that starts Apicurio's registry; the first call downloads it (about 110 MB)."""
    folder = cache_folder() / f"registry-{REGISTRY}"
    name = f"apicurio-registry-app-{REGISTRY}"
    if not folder.is_dir():
        wanted = [("io.apicurio", "apicurio-registry-app", REGISTRY)]
        packed = _resolved(f"{name}-packed", wanted, alone=True, more=_PACKED)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="unpacking-") as made:
            with tarfile.open(next(packed.glob("*.tar.gz"))) as archive:
                archive.extractall(made, filter="data")
            with contextlib.suppress(FileExistsError):  # somebody else was faster
                shutil.copytree(made, folder)
        shutil.rmtree(packed)
    return folder / f"{name}-runner.jar"


def _resolved(
    name: str, wanted: Sequence[tuple[str, str, str]], *, alone: bool = False, more: str = ""
) -> Path:
    """The folder of the cache that holds these artifacts, and what they need unless they are alone."""
    folder = cache_folder() / name
    if folder.is_dir():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache_folder(), prefix="resolving-") as made:
        pom = Path(made, "pom.xml")
        found = Path(made, "jars")
        more += _ALONE if alone else ""
        lines = "".join(_DEPENDENCY.format(*each, more) for each in wanted)
        pom.write_text(_POM.format(name=name, dependencies=lines), encoding="utf-8")
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={found}"]
        subprocess.run(["mvn", "-q", "-B", "-f", str(pom), *goal], check=True)
        try:
            found.rename(folder)
        except OSError:  # somebody else was faster
            if not folder.is_dir():
                raise
    return folder


def java_command(version: str, main: str, *, options: Sequence[str] = (HEAP,)) -> list[str]:
    """The command line that runs class (or single source file) `main` on that version's jars."""
    return ["java", *options, *_QUIET, "-cp", f"{jars(version)}/*", main]


def run_java(version: str, main: str, *arguments: object) -> str:
    """Runs a tool to its end: what it printed; CalledProcessError, with stderr in it, if it failed."""
    command = [*java_command(version, main), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(
            done.returncode, command, done.stdout, done.stderr.decode(errors="replace")
        )
    return done.stdout.decode()


def dump_log_segments(version: str, *arguments: object) -> str:
    """Kafka's DumpLogSegments: what it prints."""
    moved = release(version) >= (4, 2)
    package = "org.apache.kafka.tools" if moved else "kafka.tools"
    return run_java(version, f"{package}.DumpLogSegments", *arguments)
