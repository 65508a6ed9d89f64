from __future__ import annotations

import time

from kafkafs.fuse.listing import Demand

NEVER = float("inf")


class Reader:
    """Reads a listing as the kernel asks for it; `looks_up` says whether it looks up each name without attributes."""

    def __init__(self, *, looks_up: bool, in_page: int = 100) -> None:
        self.looks_up = looks_up
        self.in_page = in_page
        self.demand = Demand()
        self.look_ups = 0

    def pages(self, entries: int) -> list[tuple[bool, int]]:
        """Return whether each page has attributes, and its number of entries."""
        found = []
        while entries:
            is_wanted, size = self.demand.begins_page(self.look_ups), 0
            while entries and size < self.in_page:
                if size and self.demand.ends_page(is_wanted, NEVER):
                    break
                if not is_wanted:
                    self.demand.add_name()
                size, entries = size + 1, entries - 1
            found.append((is_wanted, size))
            if self.looks_up and not is_wanted:
                self.look_ups += size
        return found


def test_names_that_nobody_looks_up_get_no_attributes() -> None:
    pages = Reader(looks_up=False).pages(5000)
    assert pages == [(False, 100)] * 50


def test_names_that_are_looked_up_get_attributes_after_one_page() -> None:
    reader = Reader(looks_up=True)
    pages = reader.pages(100_000)
    assert pages[:5] == [(False, 100), (True, 100), (False, 32), (True, 100), (True, 100)]
    assert reader.look_ups < 1000


def test_attributes_end_when_the_look_ups_end() -> None:
    reader = Reader(looks_up=True)
    reader.pages(3000)
    reader.looks_up = False
    attributed = [is_wanted for is_wanted, _ in reader.pages(20_000)]
    assert True not in attributed[attributed.index(False) + 1 :]


def test_a_page_with_attributes_ends_when_its_time_is_over() -> None:
    demand = Demand()
    assert demand.ends_page(True, time.perf_counter() - 1)
    assert not demand.ends_page(True, time.perf_counter() + 100)
