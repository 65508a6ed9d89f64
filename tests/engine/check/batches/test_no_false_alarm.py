"""Logs that random scripts made, with compaction, truncation, recovery and expiry: nothing beside them is wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.engine.check.logs import SIDE_FILE_RULES, bad, found
from tests.random_scripts import RandomScript

SCRIPTS = int(os.environ.get("KAFKAFS_CHECK_SCRIPTS", "24"))
FIRST_SEED = int(os.environ.get("KAFKAFS_CHECK_SEED", "0"))
OWN = SIDE_FILE_RULES | {
    "log-start-short",
    "log-end-short",
}
# A transaction that began below the log start; a transaction of which compaction emptied the first batch.
KNOWN_SEEDS = (37, 363)
# A batch that a follower refuses has begun its leader epoch all the same: Kafka's log does so too.
ALLOWED = {"epochs-past-end"}
# A cut inside of a batch removes the whole batch, and the log goes on at the offset of the cut.
# A log that begins anew can be told to begin below its log start.
CUT = {"log-end-short", "log-start-past-end"}


def test_what_our_log_leaves_beside_its_batches_fits_them(tmp_path: Path) -> None:
    checked = 0
    for seed in (*KNOWN_SEEDS, *range(FIRST_SEED, FIRST_SEED + SCRIPTS)):
        folder = tmp_path / "logs-0"
        script = RandomScript(seed, folder, 50)
        if not script.is_over:
            answer = script.finish()
            (tmp_path / "log-start-offset-checkpoint").write_text(
                f"0\n1\nlogs 0 {answer['state']['log_start_offset']}\n", encoding="ascii"
            )
            cut = any(step["call"].startswith("truncate_") for step in script.script["steps"])
            allowed = ALLOWED | (CUT if cut else set())
            wrong = [each for each in bad(found(tmp_path)) if each.rule in OWN - allowed]
            assert not wrong, (seed, [(each.rule, each.file, each.sentence) for each in wrong])
            checked += 1
        shutil.rmtree(folder)
    assert checked > SCRIPTS // 2
