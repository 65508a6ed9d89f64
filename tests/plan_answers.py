"""What our plan says of a log dir, in the form in which tests/kafka/load_judge.py has Kafka's answer."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from engine.files.file_names import parse_folder_name
from engine.files.source_files import SourceRoot
from engine.plan.loading.broker_loading import LogToLoad
from engine.plan.loading.broker_versions import CURRENT, broker_version
from engine.plan.log_plan import LogPlan, plan_log
from engine.plan.overlay.overlay_content import OverlayContent
from engine.plan.overlay.overlay_disk import OverlayDisk
from engine.plan.overlay.overlay_tree import OverlayFolder, SourceName
from engine.writing.log_config import LogConfig
from tests.clocks import MockClock

Answer = dict[str, Any]
HERE = "/planned"


def planned(
    log_dir: Path,
    now_ms: int,
    config: dict[str, str],
    *,
    clean: bool,
    recovery_points: dict[Any, int],
    log_starts: dict[Any, int],
    version: str = CURRENT,
) -> dict[str, tuple[LogPlan, dict[str, list[Any]]]]:
    """The plan of each folder, and the files that it ends with, as in Kafka's answer."""
    with SourceRoot(str(log_dir)) as root:
        disk = OverlayDisk({HERE: root})
        answers = {}
        for name in sorted(entry.name for entry in root.list()):
            if not (log_dir / name).is_dir():
                continue
            parsed = parse_folder_name(name)
            partition, path = parsed.topic_partition, f"{HERE}/{name}"
            log = LogToLoad(
                root,
                name,
                path,
                partition,
                parsed.state,
                clean,
                recovery_points.get(partition, 0),
                log_starts.get(partition, 0),
            )
            plan = plan_log(
                disk,
                log,
                broker_version(version),
                LogConfig.from_properties(config),
                MockClock(now_ms),
            )
            answers[name] = plan, files_on(disk, path)
            disk.forget(path)
        return answers


def files_on(disk: OverlayDisk, folder: str) -> dict[str, list[Any]]:
    """Size and SHA-256 of each file of an overlay's folder."""
    entry = disk.entry(folder)
    assert isinstance(entry, OverlayFolder)
    found = {}
    for name, each in entry.entries.items():
        if isinstance(each, SourceName | OverlayContent):
            data = disk.read(f"{folder}/{name}")
            found[name] = [len(data), hashlib.sha256(data).hexdigest()]
    return found
