"""`scripts/test --changed` runs the tests of what has changed, and of what imports it in tests/."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.checkout import ROOT

covering = runpy.run_path(str(ROOT / "scripts" / "changed_tests.py"))["covering"]


def names_of(changed: str) -> set[str]:
    return {path.as_posix() for path in covering([Path(changed)])}


def test_a_module_is_covered_by_the_tests_beside_its_mirrored_path_and_those_that_import_it() -> (
    None
):
    found = names_of("engine/memory_gate.py")
    assert "tests/engine/test_readme.py" in found
    assert "tests/kafkafs/tree/partition/test_large_records.py" in found
    assert "tests/kafkafs/serve/test_tls.py" not in found


def test_a_helper_is_covered_by_the_tests_that_import_it() -> None:
    found = names_of("tests/swap_states.py")
    assert "tests/kafkafs/test_finished_swaps.py" in found
    assert "tests/engine/test_workers.py" not in found


def test_a_changed_test_covers_itself() -> None:
    assert names_of("tests/test_tidy.py") == {"tests/test_tidy.py"}
