from engine.files.folder_entries import EntryKind, SourceEntry
from engine.log.folder_listing import KRaftSnapshot, Leftover, sort_entries
from engine.log.segment.problems import Problems

FOLDER, LINK, OTHER = EntryKind.DIRECTORY, EntryKind.SYMLINK, EntryKind.OTHER


def files(*names: str) -> list[str]:
    return list(names)


def test_what_belongs_to_the_log_is_sorted_by_kind() -> None:
    listing = sort_entries(
        files(
            "00000000000000000100.log",
            "00000000000000000000.log",
            "00000000000000000000.index",
            "00000000000000000000.timeindex",
            "00000000000000000000.txnindex",
            "00000000000000000100.snapshot",
            "00000000000000000050-0000000003.checkpoint",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "quorum-state",
        )
    )
    assert listing.base_offsets == (0, 100)
    assert listing.producer_snapshots == (100,)
    assert listing.kraft_snapshots == (KRaftSnapshot(50, 3),)
    assert listing.leftovers == ()
    assert [entry.name for entry in listing.entries][:2] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
    ]


def test_what_only_looks_like_a_segment_is_a_leftover() -> None:
    names = [
        "0.log",
        "+0000000000000000005.log",
        "-0000000000000000001.log",
        "٠" * 20 + ".log",
        "99999999999999999999.log",
        "00000000000000000000.LOG",
        "00000000000000000000.log ",
        "foo.log",
        "00000000000000000007.log.deleted",
        "00000000000000000007.log.swap",
        "00000000000000000007.log.cleaned",
        "00000000000000000007.index",
        "meta.properties",
    ]
    listing = sort_entries(files(*names))
    assert listing.base_offsets == ()
    assert {leftover.name for leftover in listing.leftovers} == set(names)
    reasons = dict(listing.leftovers)
    assert "index without" in reasons["00000000000000000007.index"]
    assert "deleted" in reasons["00000000000000000007.log.deleted"]


def test_an_index_waits_for_its_own_segment_only() -> None:
    names = [
        "00000000000000000001.index",
        "00000000000000000001.timeindex",
        "00000000000000000002.index",
        "00000000000000000003.index",
        "00000000000000000003.log",
        "00000000000000000003.timeindex",
        "00000000000000000004.txnindex",
    ]
    listing = sort_entries(files(*names))
    assert listing.base_offsets == (3,)
    assert [leftover.name for leftover in listing.leftovers] == [*names[:3], names[6]]


def test_links_folders_and_devices_are_no_segments() -> None:
    name = "00000000000000000000.log"
    for kind in (LINK, FOLDER, OTHER):
        listing = sort_entries([], [SourceEntry(name, kind)])
        assert listing.base_offsets == ()
        assert [leftover.name for leftover in listing.leftovers] == [name]


def test_the_largest_offset_is_an_offset() -> None:
    assert sort_entries(files("09223372036854775807.log")).base_offsets == (2**63 - 1,)
    assert sort_entries(files("09223372036854775808.log")).base_offsets == ()


def test_one_file_alone_has_only_its_own_indexes() -> None:
    listing = sort_entries(
        files(
            "00000000000000000000.log",
            "00000000000000000005.log",
            "00000000000000000005.index",
            "partition.metadata",
        ),
        only="00000000000000000005.log",
    )
    assert listing.base_offsets == (5,)
    assert len(listing.entries) == 2
    assert listing.leftovers == ()


def test_leftovers_are_sorted() -> None:
    listing = sort_entries(files("z.txt", "a.txt"))
    assert [leftover.name for leftover in listing.leftovers] == ["a.txt", "z.txt"]
    assert isinstance(listing.leftovers[0], Leftover)


def test_problems_are_bounded_and_do_not_repeat() -> None:
    problems = Problems("t-0", most=10)
    for _ in range(3):
        problems.add("kind", "file", "reason", position=5, expected=1, found=2)
    assert problems.entries() == [
        {
            "partition": "t-0",
            "kind": "kind",
            "file": "file",
            "reason": "reason",
            "position": 5,
            "expected": 1,
            "found": 2,
        }
    ]
    for number in range(100):
        problems.add("kind", "file", "reason", position=number)
    assert [entry["position"] for entry in problems.entries()] == list(range(90, 100))
    assert len(problems) == 10


def test_a_listing_has_entries_of_every_kind_and_says_which_are_files() -> None:
    listing = sort_entries(["b.txt", "partition.metadata"], [SourceEntry("a", FOLDER)])
    assert [listing.has(name) for name in ("a", "b.txt", "c")] == [True, True, False]
    assert [listing.has_file(name) for name in ("a", "b.txt", "c")] == [False, True, False]
    assert [entry.name for entry in listing.entries] == ["a", "b.txt", "partition.metadata"]


def test_only_snapshots_are_snapshots() -> None:
    listing = sort_entries(
        [
            "00000000000000000007.snapshot",
            "00000000000000000009-0000000003.checkpoint",
            "leader-epoch-checkpoint",
            "partition.metadata",
            "quorum-state",
        ]
    )
    assert listing.producer_snapshots == (7,)
    assert listing.kraft_snapshots == ((9, 3),)
    assert listing.leftovers == ()
