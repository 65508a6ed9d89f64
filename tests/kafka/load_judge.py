"""Kafka's own LogManager, asked to load log dirs: what it makes of each folder, and which files it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kafka import jars
from tests.kafka.judge import Judge

SOURCE = Path(__file__).parent / "judge" / "Loads.java"
Answer = dict[str, Any]


class LoadJudge(Judge):
    """One JVM; a context manager."""

    def __init__(self, version: str = jars.CURRENT) -> None:
        managers = SOURCE.with_name(
            "Managers.java" if jars.release(version) >= (4, 4) else "Managers43.java"
        )
        with TemporaryDirectory(prefix="judge-") as made:
            joined = Path(made, SOURCE.name)
            joined.write_text(SOURCE.read_text() + managers.read_text())
            super().__init__(version, joined)
            self.ask("ready")  # compiled: the file may go

    def load_dir(
        self, log_dir: Path, now_ms: int, config: dict[str, str], *, clean: bool | None = None
    ) -> Answer:
        """Load all folders of a log dir, which is changed.

        Args:
            log_dir: with or without checkpoints and marker.
            now_ms: the broker's time.
            config: topic properties.
            clean: None to go by the marker.

        Returns:
            `checkpoints` that cannot be read, with the exception; whether that takes the log dir `offline`;
            of each of the `folders` the state, or `error`, `message` and `is_io`; and `files`: size and
            SHA-256 of each, as they are after the loading.
        """
        return self.ask("load", dir=str(log_dir), now_ms=now_ms, config=config, clean=clean)

    def start(
        self,
        log_dirs: Sequence[Path],
        now_ms: int,
        *,
        node_id: int,
        metadata_dir: Path,
        broker: dict[str, str],
    ) -> Answer:
        """Start a broker, the only controller of its cluster, on log dirs, which are changed, up to where replicas fetch.

        Args:
            log_dirs: in the order of `log.dirs`.
            now_ms: the broker's time.
            node_id: of the broker.
            metadata_dir: the one of the log dirs with the metadata log.
            broker: properties of the broker.

        Returns:
            `failure`, `message` and `stage` where the broker does not start; else whether it `halts`, and the
            log dirs that are `offline`. The `logs` by path, each with its start and end; the paths of logs that
            were `created`; how many partitions are `unserved` for another reason than a log dir; whether the log
            `cleaner_dies`; and of each log dir and folder the `files`.
        """
        return self.ask(
            "start",
            dirs=[str(each) for each in log_dirs],
            now_ms=now_ms,
            node_id=node_id,
            metadata_dir=str(metadata_dir),
            broker=broker,
        )
