"""An inode or a folder that cannot be read costs what is in it, and nothing else. All cases: tests/damage/inodes.py."""

from __future__ import annotations

import pytest

from tests.damage.inodes import main


@pytest.mark.parametrize("start", range(3))
def test_a_sample_of_all_faults_files_and_commands(start: int) -> None:
    assert main(["--start", str(start), "--step", "61"]) == 0


def test_an_export_goes_on_without_a_partition_and_does_not_say_that_it_is_whole() -> None:
    assert main(["--commands", "export", "--start", "60", "--step", "1", "--count", "8"]) == 0
