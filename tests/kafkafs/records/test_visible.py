"""Which batches and records are seen, by bounds, fates and kinds: compared with the rule written out for each one."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.budgets import DEFAULT_BUDGETS
from engine.columns.batch_table import BATCH_ROW
from engine.columns.left_out import left_out
from engine.log.log_directory import open_source
from engine.log.segment.scan import BatchRun
from engine.record.fate import Fate
from kafkafs.records.visible import SeenRun, Wanted
from tests.kafkafs.records.test_same_record import NAME, Script

CONTROL, TRANSACTIONAL = 0x20, 0x10


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_is_left_out_if_its_header_rules_out_each_of_its_records(seed: int) -> None:
    chance = random.Random(seed)
    table = np.zeros(200, BATCH_ROW.dtype)
    for row in table:
        row["magic"] = chance.choice([0, 1, 2, 2, 2])
        row["attributes"] = chance.choice([0, CONTROL, TRANSACTIONAL, CONTROL | TRANSACTIONAL])
        row["base_offset"] = chance.randint(0, 12)
        row["last_offset"] = row["base_offset"] + chance.choice([-1, 0, 0, 1, 3])
    fates = np.array([chance.choice(list(Fate)) for _ in table], np.uint8)
    start, stop = sorted((chance.randint(0, 12), chance.randint(0, 12)))
    for committed in (False, True):
        for control in (False, True):
            found = left_out(table, fates, start, stop, committed=committed, control=control)
            one_by_one = [
                bool(left_out(row, int(fate), start, stop, committed=committed, control=control))
                for row, fate in zip(table, fates, strict=True)
            ]
            assert found.tolist() == one_by_one
            for row, fate, is_left in zip(table, fates, one_by_one, strict=True):
                is_new = row["magic"] == 2
                is_outside = row["last_offset"] < start or (is_new and row["base_offset"] >= stop)
                assert is_left == (
                    (is_outside and row["last_offset"] >= row["base_offset"])
                    or (is_new and bool(row["attributes"] & CONTROL) and not control)
                    or (committed and fate in (Fate.ABORTED, Fate.OPEN))
                )


@pytest.mark.parametrize("seed", range(4))
def test_the_records_of_a_range_are_seen_whether_all_are_decoded_or_some(
    seed: int, tmp_path: Path
) -> None:
    log = Script(seed).log(tmp_path / "data")
    chance = random.Random(seed)
    with closing(open_source(str(log.path))) as source:
        view = source.partitions()[NAME].view()
        for _ in range(8):
            start = chance.randint(0, view.log_end_offset)
            wanted = Wanted(
                start, chance.randint(start, view.log_end_offset), chance.random() < 0.5
            )
            decoded, chosen = [], []
            for segment, run in view.runs(0):
                assert isinstance(run, BatchRun)
                seen = SeenRun(view, segment, run, wanted)
                for columns, indices in seen.columns(DEFAULT_BUDGETS):
                    decoded += columns.offset[indices].tolist()
                for columns in run.columns():
                    chosen += columns.offset[seen.seen(columns, np.arange(len(columns)))].tolist()
            assert (
                decoded
                == chosen
                == [
                    each.offset
                    for each in log.records
                    if wanted.start <= each.offset < wanted.stop and each.state != "control"
                    if not wanted.committed or each.state not in ("aborted", "open")
                ]
            )


def test_all_records_are_wanted_but_those_of_control_batches() -> None:
    assert Wanted() == (0, 2**63 - 1, False, False)


@pytest.mark.parametrize("seed", range(4))
def test_the_fates_are_those_of_the_batches_with_records_to_see(seed: int, tmp_path: Path) -> None:
    log = Script(seed).log(tmp_path / "data")
    with closing(open_source(str(log.path))) as source:
        view = source.partitions()[NAME].view()
        for segment, run in view.runs(0):
            assert isinstance(run, BatchRun)
            every = view.fates(segment, run)
            for wanted in (
                Wanted(control=True),
                Wanted(),
                Wanted(committed=True),
                Wanted(start=log.records[-1].offset),
            ):
                seen = SeenRun(view, segment, run, wanted)
                kept = np.isin(run.table["position"], seen.table["position"])
                assert kept.tolist() == (~seen.left).tolist()
                assert (seen.fates is None) == (every is None)
                if every is not None and seen.fates is not None:
                    assert seen.fates.tolist() == every[kept].tolist()
