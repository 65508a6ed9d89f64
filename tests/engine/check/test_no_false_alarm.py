"""Logs that random scripts made, with compaction, truncation, recovery and expiry: nothing beside them is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from engine.check.side_file_rules import SIDE_FILE_RULES
from tests.engine.check.logs import bad, found
from tests.random_scripts import RandomScript

SCRIPTS = int(os.environ.get("KAFKAFS_CHECK_SCRIPTS", "24"))
OWN = {rule for _, _, group in SIDE_FILE_RULES for rule in group} | {
    "log-start-short",
    "log-end-short",
}
# A batch that a follower refuses has begun its leader epoch all the same: Kafka's log does so too.
ALLOWED = {"epochs-past-end"}
# A cut inside of a batch removes the whole batch, and the log goes on at the offset of the cut.
CUT = {"log-end-short"}


def test_what_our_log_leaves_beside_its_batches_fits_them(tmp_path: Path) -> None:
    checked = 0
    for seed in range(SCRIPTS):
        folder = tmp_path / "logs-0"
        script = RandomScript(seed, folder, 50)
        if not script.is_over:
            script.finish()
            cut = any(step["call"] == "truncate_to" for step in script.script["steps"])
            allowed = ALLOWED | (CUT if cut else set())
            wrong = [each for each in bad(found(tmp_path)) if each.rule in OWN - allowed]
            assert not wrong, (seed, [(each.rule, each.file, each.sentence) for each in wrong])
            checked += 1
        shutil.rmtree(folder)
    assert checked > SCRIPTS // 2
