"""Makes tests/data/golden/logs.json.gz: scripts of calls to a log, and what Kafka's classes made of them.

python -m tests.kafka.golden_logs
"""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.golden_logs import GOLDEN
from tests.kafka.judge import Judge
from tests.log_scripts import without_messages
from tests.random_scripts import RandomScript

STEPS = 50
THEMES: dict[str, dict[str, str]] = {
    "plain": {"cleanup.policy": "delete", "preallocate": "false"},
    "one segment": {"internal.segment.bytes": "1000000", "segment.ms": "604800000"},
    "small segments": {"internal.segment.bytes": "400"},
    "an entry for each batch": {"index.interval.bytes": "0"},
    "small indexes": {"segment.index.bytes": "100"},
    "rolled by time": {"segment.ms": "20000", "internal.segment.bytes": "1000000"},
    "preallocated": {"preallocate": "true"},
    "append time": {"message.timestamp.type": "LogAppendTime"},
    "retention": {"retention.ms": "60000", "retention.bytes": "3000", "cleanup.policy": "delete"},
    "compacted": {"cleanup.policy": "compact", "internal.segment.bytes": "1000"},
    "compacted, nothing held back": {
        "cleanup.policy": "compact",
        "internal.segment.bytes": "400",
        "delete.retention.ms": "0",
    },
    "compacted and deleted": {"cleanup.policy": "compact,delete", "retention.ms": "60000"},
    "flushed each time": {"flush.messages": "1"},
}


def case(judge: Judge, seed: int, config: dict[str, str]) -> dict[str, Any]:
    """A script, Kafka's answers, and its files in base64."""
    with tempfile.TemporaryDirectory() as made:
        random_script = RandomScript(seed, Path(made, "ours", "topic-0"), STEPS, config)
        random_script.finish()
        script = json.loads(json.dumps(random_script.script))
        folder = Path(made, "kafka", "topic-0")
        answer = without_messages(judge.write(folder, script))
        answer["files"] = {
            name: base64.b64encode((folder / name).read_bytes()).decode()
            for name in answer["files"]
        }
    return {"script": script, "answer": answer}


def main() -> None:
    """Writes the file."""
    with Judge() as judge:
        cases = {
            name: case(judge, 1000 + number, config)
            for number, (name, config) in enumerate(THEMES.items())
        }
    text = json.dumps(cases, separators=(",", ":"), sort_keys=True)
    GOLDEN.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{len(cases)} scripts, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
