"""The numbers of a transaction's fate, which the compiled kernel has, too."""

from engine.record.fate import Fate


def test_the_fates_have_the_numbers_of_the_kernel():
    assert {fate.name: int(fate) for fate in Fate} == {
        "NONE": 0,
        "COMMITTED": 1,
        "ABORTED": 2,
        "OPEN": 3,
    }
