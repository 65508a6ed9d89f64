from __future__ import annotations

from pathlib import Path

from engine.broker.replica_fetches import fetch_records
from tests.conformance.unified_log_steps import LogBench, append_plain


def test_an_answer_has_the_offsets_of_the_log_from_before_the_read(tmp_path: Path) -> None:
    log = LogBench(tmp_path).log()
    append_plain(log, 3)
    log.update_high_watermark(2)
    found = fetch_records(log, 1, 1024)
    assert [record.offset for record in found.fetched.records.records()] == [0, 1, 2]
    assert found[1:] == (None, 2, 0, 3, 2)
