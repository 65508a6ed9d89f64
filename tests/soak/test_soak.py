"""Each part of the soak runs, finds a fault that was planted, and keeps it so that it can be tried again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from kafkafs.decode import shown_text
from tests.mount.mounted import needs_fuse
from tests.soak import counters, frames, fuzz, hurt, judged, kill, main, posix, sanitized, text
from tests.soak.fuzz import Fuzzer
from tests.soak.parts import Job, Part, kept_input
from tests.soak.tree_model import walked

PLANTED = ("tests.soak.planted",)
FEW = 40
SLOW = ("fuzz/folder-check", "fuzz/folder-dump", "fuzz/folder-tree", "fuzz/tiered-files")


def ran(part: Part, folder: Path, inputs: int, *, first: int = 0, seed: int = 1) -> Job:
    """A job of so many inputs, over."""
    job = Job(part, seed, first, seconds=None, inputs=inputs, findings=folder)
    part.run(job)
    return job


def found(job: Job) -> list[dict[str, Any]]:
    """What its findings' files say."""
    return [json.loads(path.read_text()) for path in job.found]


@pytest.fixture(scope="module")
def plain() -> Iterator[Fuzzer]:
    """A worker with the installed extensions: it starts in a second, and sanitized ones are built in two minutes."""
    worker = Fuzzer(None, PLANTED)
    yield worker
    worker.stop()


def with_worker(name: str, worker: Fuzzer) -> Part:
    return Part(f"fuzz/{name}", "", "inputs", lambda job: fuzz.fuzz(job, worker, PLANTED))


@pytest.mark.parametrize("part", fuzz.PARTS, ids=lambda part: part.name)
def test_each_target_takes_hostile_bytes(part: Part, plain: Fuzzer, tmp_path: Path) -> None:
    few = 3 if part.name in SLOW else FEW
    job = ran(with_worker(part.name.removeprefix("fuzz/"), plain), tmp_path, few)
    assert (job.tried, job.found) == (few, [])


def test_there_is_a_target_for_each_part_and_a_part_for_each_target() -> None:
    from tests.soak import (
        fuzz_columns,
        fuzz_fetches,
        fuzz_files,
        fuzz_kernel,
        fuzz_messages,
        fuzz_programs,
    )

    assert set(fuzz.KERNEL) == fuzz_kernel.TARGETS.keys()
    assert set(fuzz.PROGRAMS) == fuzz_programs.TARGETS.keys() | fuzz_columns.TARGETS.keys()
    assert set(fuzz.FILES) == fuzz_files.TARGETS.keys()
    assert set(fuzz.MESSAGES) == fuzz_messages.TARGETS.keys()
    assert set(fuzz.FETCHES) == fuzz_fetches.TARGETS.keys()
    assert len(fuzz.PARTS) == len({part.name for part in fuzz.PARTS})


@pytest.mark.parametrize(
    ("name", "says"), [("planted-error", "IndexError: planted"), ("planted-end", "with status 9")]
)
def test_what_a_target_does_not_survive_is_kept_with_its_input(
    name: str, says: str, plain: Fuzzer, tmp_path: Path
) -> None:
    part = with_worker(name, plain)
    job = ran(part, tmp_path, 30)
    assert job.tried == 30
    facts = found(job)
    assert facts
    for each in facts:
        assert kept_input(each) == b"\xff"
        assert says in "\n".join(each["what"])
        assert (
            each["again"] == f"scripts/soak fuzz/{name} --seed 1 --from {each['number']} --inputs 1"
        )
        assert len(ran(part, tmp_path, 1, first=each["number"]).found) == 1


def test_an_input_that_never_ends_is_ended_and_kept(
    plain: Fuzzer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "HANGS_AFTER", 0.5)
    monkeypatch.setattr(fuzz, "LOOK_EACH", 0.1)
    job = ran(with_worker("planted-hang", plain), tmp_path, 10)
    facts = found(job)
    assert facts
    assert all("in _hang" in "\n".join(each["what"]) for each in facts)


@pytest.mark.skipif(bool(sanitized.obstacle()), reason=sanitized.obstacle() or "never")
def test_sanitizers_find_a_read_behind_a_buffer_and_an_overflow(tmp_path: Path) -> None:
    worker = Fuzzer(None, PLANTED, is_watched=True)
    try:
        job = ran(with_worker("planted-overflow", worker), tmp_path, 20)
    finally:
        worker.stop()
    said = {kept_input(each): "\n".join(each["what"]) for each in found(job)}
    assert "heap-buffer-overflow" in said[b"\xff"]
    assert "signed integer overflow" in said[b"\xfe"]


# Runs, counters, findings


def some_part(run: Any, obstacle: str = "") -> Part:
    return Part("some/part", "a part", "inputs", run, lambda: obstacle)


def failing(job: Job) -> None:
    """End as a mount that does not start ends: pytest.fail raises no Exception."""
    pytest.fail(f"the daemon of job {job.seed} does not start")


def unprepared() -> None:
    """End as a build that fails."""
    raise RuntimeError("gcc ended")


@pytest.mark.parametrize(
    ("part", "what"),
    [
        (Part("some/part", "a part", "inputs", failing), "the daemon of job 1 does not start"),
        (Part("some/part", "a part", "inputs", print, prepare=unprepared), "gcc ended"),
    ],
)
def test_a_part_that_cannot_start_is_a_finding_and_the_next_part_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Part, what: str
) -> None:
    seen: list[int] = []
    next_part = Part("next/part", "a part", "inputs", lambda job: seen.extend(job.numbers()))
    monkeypatch.setattr(main, "PARTS", (part, next_part))
    assert main.main(["all", "--inputs", "2", "--folder", str(tmp_path)]) == 1
    (finding,) = (tmp_path / "findings").iterdir()
    assert what in finding.read_text()
    assert seen == [0, 1]


def test_a_run_goes_on_where_the_last_one_with_the_same_seed_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(main, "PARTS", (some_part(lambda job: seen.extend(job.numbers())),))
    words = ["some", "--inputs", "3", "--folder", str(tmp_path)]
    assert [main.main(words), main.main(words), main.main([*words, "--seed", "2"])] == [0, 0, 0]
    assert seen == [0, 1, 2, 3, 4, 5, 0, 1, 2]
    runs = counters.read(tmp_path / "counters.jsonl")
    assert [(each.seed, each.first, each.inputs, each.findings) for each in runs] == [
        (1, 0, 3, 0), (1, 3, 3, 0), (2, 0, 3, 0),
    ]  # fmt: skip
    capsys.readouterr()
    main.main(["report", "--folder", str(tmp_path)])
    assert "| some/part | 9 inputs |" in capsys.readouterr().out


def test_saved_counters_are_gone_on_from_elsewhere_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []

    def run(job: Job) -> None:
        for number in job.numbers():
            seen.append(number)
            job.note("bytes", 10)

    monkeypatch.setattr(main, "PARTS", (some_part(run),))
    words = ["some", "--inputs", "3", "--folder", str(tmp_path)]
    for command in (words, ["save", *words[3:]], ["save", *words[3:]], words):
        main.main(command)
    (tmp_path / "counters.jsonl").unlink()
    main.main(words)
    main.main(["save", *words[3:]])
    assert seen == [0, 1, 2, 3, 4, 5, 3, 4, 5]  # the counter of the second run was lost unsaved
    (only,) = counters.read_sums(tmp_path / "sums.tsv")
    assert (only.seed, only.end, only.inputs, only.unit) == (1, 6, 6, "inputs")
    assert only.notes == {"bytes": 60}
    assert capsys.readouterr().out.count("| some/part | 3 inputs | 30 bytes |") == 2


def test_a_finding_makes_the_exit_status_1_and_says_how_to_try_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(job: Job) -> None:
        for number in job.numbers():
            if number == 2:
                job.find(number, "broken")

    monkeypatch.setattr(main, "PARTS", (some_part(run),))
    assert main.main(["some/part", "--inputs", "5", "--folder", str(tmp_path)]) == 1
    (kept,) = (tmp_path / "findings").iterdir()
    said = capsys.readouterr().out
    assert "again: scripts/soak some/part --seed 1 --from 2 --inputs 1" in said
    assert str(kept) in said
    monkeypatch.setattr(main, "FOLDER", tmp_path / "again")
    assert main.main(["again", str(kept)]) == 1


def test_an_input_of_megabytes_is_kept_whole(tmp_path: Path) -> None:
    data = bytes(range(256)) * 20_000
    part = some_part(lambda job: [job.find(number, "", data) for number in job.numbers()])
    (facts,) = found(ran(part, tmp_path, 1))
    assert kept_input(facts) == data


def test_a_part_that_breaks_off_is_a_finding_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(job: Job) -> None:
        for number in job.numbers():
            assert number < 2, "no more mounts"

    seen: list[int] = []
    whole = replace(some_part(lambda job: seen.extend(job.numbers())), name="some/other")
    monkeypatch.setattr(main, "PARTS", (some_part(broken), whole))
    assert main.main(["some", "--inputs", "4", "--folder", str(tmp_path)]) == 1
    (kept,) = (tmp_path / "findings").iterdir()
    facts = json.loads(kept.read_text())
    assert facts["number"] == 2
    assert "AssertionError: no more mounts" in facts["what"]
    assert seen == [0, 1, 2, 3]
    assert "some/part: 2 inputs" in capsys.readouterr().out


def test_a_part_that_cannot_run_here_is_named_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "PARTS", (some_part(None, "no such tool"),))
    assert main.main(["all", "--inputs", "5", "--folder", str(tmp_path)]) == 3
    assert "some/part: cannot run here: no such tool" in capsys.readouterr().err
    assert not (tmp_path / "counters.jsonl").exists()


def test_a_name_that_no_part_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["fuz"]) == 2
    assert "no part is called fuz" in capsys.readouterr().err


def test_the_time_is_split_between_groups_and_then_between_their_parts() -> None:
    share = main.shares(main.PARTS, 600.0)
    assert sum(share.values()) == pytest.approx(600.0)
    assert sum(share[part.name] for part in fuzz.PARTS) == pytest.approx(4 * share["text"])


def test_each_group_has_a_time_of_its_own() -> None:
    share = main.shares(main.PARTS, 0.0, each=60.0)
    groups = {part.group for part in main.PARTS}
    assert len(groups) == 11
    for group in groups:
        of_parts = [share[part.name] for part in main.PARTS if part.group == group]
        assert sum(of_parts) == pytest.approx(60.0)


@pytest.mark.parametrize("jobs", [1, 2, 3, 8, 50])
def test_each_part_is_in_one_job_and_jobs_take_about_as_long(jobs: int) -> None:
    share = main.shares(main.PARTS, 0.0, each=60.0)
    deals = [main.dealt(main.PARTS, share, jobs, number) for number in range(jobs)]
    assert sorted(part.name for deal in deals for part in deal) == sorted(share)
    loads = [sum(share[part.name] for part in deal) for deal in deals]
    assert max(loads) - min(loads) < 60.1


def test_jobs_run_side_by_side_and_add_to_the_same_counters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["text", "crash/faults", "--inputs", "2", "--jobs", "2", "--folder", str(tmp_path)]
    assert main.main(words) == 0
    counted = {each.part: each.inputs for each in counters.read(tmp_path / "counters.jsonl")}
    assert counted == {"text": 2, "crash/faults": 2}
    assert sorted(line.partition(":")[0] for line in capfd.readouterr().out.splitlines()) == sorted(
        counted
    )


@pytest.mark.parametrize(
    ("statuses", "status"), [((0, 0), 0), ((0, 3), 3), ((3, 1), 1), ((0, -9), 1)]
)
def test_jobs_end_with_the_worst_status_of_them(
    statuses: tuple[int, int], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended:
        def __init__(self, words: list[str], **_: object) -> None:
            self._status = statuses[int(words[-1])]

        def wait(self) -> int:
            return self._status

    monkeypatch.setattr("subprocess.Popen", Ended)
    assert main.run_jobs(["text"], 2) == status


# The other parts


@pytest.mark.parametrize("part", [*text.PARTS, *hurt.PARTS], ids=lambda part: part.name)
def test_a_part_in_this_process_runs(part: Part, tmp_path: Path) -> None:
    few = {"text": 256, "damage/hits": 4, "damage/sectors": 2}.get(part.name, 4)
    job = ran(part, tmp_path, few)
    assert (job.tried, job.found) == (few, [])


def test_text_that_reaches_a_terminal_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "printable", str)
    monkeypatch.setattr(text, "check_commands", lambda *_: None)
    assert shown_text.printable("\x1b") != "\x1b"
    assert ran(text.PARTS[0], tmp_path, 64).found


def test_malformed_requests_leave_a_server_as_it_was(tmp_path: Path) -> None:
    job = ran(frames.PARTS[0], tmp_path, 3000)
    assert (job.tried, job.found) == (3000, [])


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ({"is_served": lambda _: False}, "another client has a wrong answer"),
        ({"MOST_GROWTH": -(1 << 40)}, "the memory has grown by"),
        ({"state_of": lambda _: object()}, "the source has changed"),
    ],
    ids=["no answer", "memory", "source"],
)
def test_a_server_that_malformed_requests_hurt_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted: dict[str, object], told: str
) -> None:
    for name, stand_in in planted.items():
        monkeypatch.setattr(frames, name, stand_in)
    monkeypatch.setattr(frames, "ROUND", 10)
    (found_one,) = found(ran(frames.PARTS[0], tmp_path, 20))
    assert told in found_one["what"][0]


def test_a_broken_promise_of_a_soak_of_damage_is_found(tmp_path: Path) -> None:
    part = replace(hurt.PARTS[0], run=hurt.batched(lambda *_: ["a line is missing"]))
    job = ran(part, tmp_path, 5)
    assert [each["what"] for each in found(job)] == [["a line is missing"]]


@needs_fuse
@pytest.mark.mount
def test_reads_of_a_mount_are_right_and_a_wrong_byte_is_found(tmp_path: Path) -> None:
    with posix.mounted_copy(("orders-0",)) as (source, root):
        model = walked(root, source, looked_up=2)
        assert len(model.proven) > 5
        for longest in (1, 50):
            posix.Reader(root, model, posix.Random(7), longest_run=longest).run(1500)
        path = max(model.files, key=lambda path: len(model.files[path]))
        model.files[path] = bytes(len(model.files[path]))
        with pytest.raises(posix.WrongError):
            posix.Reader(root, model, posix.Random(7)).run(100_000)


@needs_fuse
@pytest.mark.mount
def test_the_daemon_answers_a_tenth_of_the_reads_of_its_mount_or_more(tmp_path: Path) -> None:
    part = replace(posix.PARTS[0], run=lambda job: posix.read_at_random(job, ("orders-0",)))
    job = ran(part, tmp_path, 20_000)
    assert (job.tried, job.found) == (20_000, [])
    assert 10_000 < job.notes["reads"] <= 20_000
    assert job.notes["reads asked of the daemon"] > job.notes["reads"] / 10


@needs_fuse
@pytest.mark.mount
def test_after_a_kill_the_source_is_unchanged_and_another_name_in_it_is_found(
    tmp_path: Path,
) -> None:
    with kill.killed(("orders-0",)) as (running,):
        assert running.once(kill.Random(3)) == []
        (running.source / "orders-0" / "new").write_bytes(b"")
        assert "the source was changed" in running.once(kill.Random(4))


@pytest.mark.parametrize(
    ("part", "module", "function", "answer"),
    [
        ("loader/plan", "test_planned_loads", "wrong_plans", ({"hurt-3": ["log end"]}, 4)),
        ("loader/load", "test_judge", "loaded_by_both", ({"end": 1}, {"end": 2})),
        ("loader/write", "test_judge", "written_by_both", ({"end": 1}, {"end": 2})),
    ],
)
def test_what_kafka_does_otherwise_is_found(
    part: str,
    module: str,
    function: str,
    answer: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NoJudge:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("tests.kafka.load_judge.LoadJudge", NoJudge)
    monkeypatch.setattr("tests.kafka.judge.Judge", NoJudge)
    monkeypatch.setattr(f"tests.kafka.{module}.{function}", lambda *_: answer)
    (chosen,) = [each for each in judged.PARTS if each.name == part]
    assert ran(chosen, tmp_path, 1).found


def test_a_live_directory_that_was_read_wrongly_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judged, "LIVE_TEST", "tests/soak/no_such_file.py")
    job = ran(judged.PARTS[-1], tmp_path, 1)
    assert "no_such_file" in "\n".join(found(job)[0]["what"])
