"""What is wrong with a path is told first, whatever the call would do there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mount.mounted import needs_fuse
from tests.mount.posix.posix_tree import LONGEST_PATH, MOST_LINKS, NAME_MAX, PATH_MAX
from tests.mount.posix.system_calls import BAD_ADDRESSES, CALLS, CHANGING, CREATING, READING
from tests.permissions import modes_count

pytestmark = [pytest.mark.mount, needs_fuse]

TOO_LONG = "n" * (NAME_MAX + 1)
LOOKED_UP = [name for name in (*CHANGING, *READING) if name != "open-create"]
"""Calls that need what the path names."""
FOLLOWING = [name for name in LOOKED_UP if name not in ("lchown", "link", "lstat", "readlink")]
"""Those of them that follow a link at the end of the path."""


@pytest.mark.parametrize("name", list(CALLS))
def test_a_file_on_the_way_is_not_a_folder(here: Path, name: str) -> None:
    assert CALLS[name]("file/test") == "ENOTDIR"


@pytest.mark.parametrize("name", list(CALLS))
def test_a_missing_folder_on_the_way_is_missing(here: Path, name: str) -> None:
    assert CALLS[name]("missing/test") == "ENOENT"


@pytest.mark.parametrize("name", list(CALLS))
def test_an_empty_path_names_nothing(here: Path, name: str) -> None:
    assert CALLS[name]("") == "ENOENT"


@pytest.mark.parametrize("name", list(CALLS))
def test_links_in_a_circle_on_the_way_are_too_many(here: Path, name: str) -> None:
    assert [CALLS[name](f"{link}/test") for link in ("loop-a", "loop-b", "self")] == ["ELOOP"] * 3


@pytest.mark.parametrize("name", list(CALLS))
def test_a_name_on_the_way_that_is_too_long_is_told(here: Path, name: str) -> None:
    assert CALLS[name](f"{TOO_LONG}/test") == "ENAMETOOLONG"
    assert CALLS[name](f"{TOO_LONG * 5}/test") == "ENAMETOOLONG"


@pytest.mark.parametrize("name", list(CALLS))
def test_a_path_that_is_too_long_is_told(here: Path, name: str) -> None:
    assert len(LONGEST_PATH) == PATH_MAX - 1
    assert CALLS[name](LONGEST_PATH + "x") == "ENAMETOOLONG"


@pytest.mark.parametrize("name", list(CALLS))
def test_a_folder_that_may_not_be_searched_is_closed(here: Path, name: str) -> None:
    with modes_count():
        assert [CALLS[name](f"closed/{each}") for each in ("inside", "missing")] == ["EACCES"] * 2


@pytest.mark.parametrize("name", [name for name in CALLS if name != "utimensat"])
def test_a_path_outside_of_the_memory_is_a_fault(here: Path, name: str) -> None:
    assert [CALLS[name](address) for address in BAD_ADDRESSES] == ["EFAULT", "EFAULT"]


@pytest.mark.parametrize("name", LOOKED_UP)
def test_a_missing_name_is_missing(here: Path, name: str) -> None:
    assert CALLS[name]("missing") == "ENOENT"


@pytest.mark.parametrize("name", [*LOOKED_UP, *CREATING, "open-create"])
def test_a_name_that_is_too_long_is_told(here: Path, name: str) -> None:
    assert CALLS[name](TOO_LONG) == "ENAMETOOLONG"
    assert CALLS[name](TOO_LONG * 5) == "ENAMETOOLONG"


@pytest.mark.parametrize("name", FOLLOWING)
def test_a_link_is_followed_to_what_is_missing_or_never_found(here: Path, name: str) -> None:
    links = ("dangling", "loop-a", "self", f"chain/{MOST_LINKS}")
    assert [CALLS[name](link) for link in links] == ["ENOENT", "ELOOP", "ELOOP", "ELOOP"]


@pytest.mark.parametrize("path", ["n" * NAME_MAX, LONGEST_PATH, f"chain/{MOST_LINKS - 1}"])
def test_the_longest_name_path_and_chain_of_links_are_found(here: Path, path: str) -> None:
    answers = {name: CALLS[name](path) for name in ("stat", "open-read", "open-create", "access")}
    assert set(answers.values()) == {"ok"}


@pytest.mark.parametrize("folder", ["", "records", "offset", "committed", "segments", "time"])
def test_names_in_logs_are_too_long_as_well(logs: Path, folder: str) -> None:
    """A number with zeros before it would be found, were it not too long."""
    for name in ("0" * (NAME_MAX + 1), "0" * 2000, TOO_LONG):
        assert READING["stat"](f"orders-0/{folder}/{name}") == "ENAMETOOLONG"
    assert READING["stat"](f"orders-0/{folder}/{'x' * NAME_MAX}") == "ENOENT"
