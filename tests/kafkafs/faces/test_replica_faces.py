"""Every face reads the log dirs of several nodes as one cluster: the union that was computed as they were made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from random import Random

import pytest
from click.testing import CliRunner

import kafkafs
from engine.errors import CorruptRecordError
from engine.replicas.cluster_source import open_cluster
from kafkafs.cli import cli
from tests.kafkafs.serve.consumed import Consumer, FetchError
from tests.replica_clusters import START, MadeCluster, MadePartition, make_cluster

FIRST_SEED = int(os.environ.get("KAFKAFS_FACES_FIRST_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(os.environ.get("KAFKAFS_REPLICA_SEEDS", "20")))


@pytest.fixture(params=SEEDS, scope="module")
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MadeCluster:
    return make_cluster(tmp_path_factory.mktemp("cluster"), Random(request.param))


def paths(made: MadeCluster) -> list[str]:
    return [str(each) for each in made.dirs]


def shown(lines: str) -> dict[str, dict[int, bytes]]:
    """The values of record lines by partition and offset; a record that is there twice fails."""
    found: dict[str, dict[int, bytes]] = {}
    for line in map(json.loads, lines.splitlines()):
        if "error" in line or line.get("belowLogStart"):
            continue
        known = found.setdefault(f"{line['topic']}-{line['partition']}", {})
        assert line["offset"] not in known
        known[line["offset"]] = line["value"].encode()
    return found


def expected(made: MadeCluster) -> dict[str, dict[int, bytes]]:
    known = {name: each.records for name, each in made.partitions.items()}
    return {name: records for name, records in known.items() if records}


def test_cat_shows_the_union(made: MadeCluster) -> None:
    source = ",".join(paths(made))
    lines = ""
    for name in made.partitions:
        with kafkafs.open(*paths(made)) as opened:
            files = opened.names(f"{name}/records")
        if files:
            wanted = [f"{name}/records/{file}" for file in files]
            lines += CliRunner().invoke(cli, ["cat", source, *wanted]).stdout
    assert shown(lines) == expected(made)


def test_grep_finds_the_union(made: MadeCluster) -> None:
    result = CliRunner().invoke(cli, ["grep", "orders", ",".join(paths(made))])
    assert shown(result.stdout) == expected(made)


def test_offsets_are_those_of_the_leading_copy(made: MadeCluster) -> None:
    result = CliRunner().invoke(cli, ["offsets", *paths(made)])
    ends = {name: each.leader.end for name, each in made.partitions.items()}
    assert result.stdout.splitlines() == [f"orders:{name[-1]}:{end}" for name, end in ends.items()]


def test_python_reads_the_union(made: MadeCluster) -> None:
    with kafkafs.open(*paths(made)) as opened:
        for name, each in made.partitions.items():
            partition = opened.topics["orders"][int(name[-1])]
            assert dict(records_of(partition)) == each.records
            table = partition.scan(on_corrupt="skip").to_arrow()
            rows = zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
            assert dict(rows) == each.records


def records_of(partition: kafkafs.OpenedPartition) -> Iterator[tuple[int, bytes | None]]:
    for each in partition.records(on_corrupt="skip"):
        yield each.offset, each.value


def test_each_record_is_found_by_its_offset_and_by_its_time(made: MadeCluster) -> None:
    source = open_cluster(paths(made))
    for name, each in made.partitions.items():
        view = source.partitions()[name].view()
        records = each.records
        for offset in range(each.start, each.leader.end):
            value = None
            try:
                found = view.record(offset)
                if found is not None:
                    value = bytes(found[0].value(found[1]))
            except CorruptRecordError:
                assert offset not in records
            assert value == records.get(offset)
        for offset in list(records)[::7]:
            first = view.offset_for_time(START + offset)
            assert first is not None
            assert first.offset == offset
    source.close()


def test_serve_sends_the_union(made: MadeCluster) -> None:
    consumer = Consumer(*paths(made))
    for name, each in made.partitions.items():
        assert dict(fetched(consumer, name, each)) == each.records


def fetched(consumer: Consumer, name: str, made: MadePartition) -> Iterator[tuple[int, bytes]]:
    """The records that a client gets which goes on behind each offset that is refused."""
    view = consumer.log(name).view()
    offset, end = view.log_start_offset, view.log_end_offset
    seen: set[int] = set()
    while offset < end:
        try:
            records = consumer.records(name, offset)
        except FetchError as error:
            for each in consumer.got:
                if each.offset not in seen:
                    yield each.offset, bytes(each.value or b"")
                    seen.add(each.offset)
            offset = error.offset + 1
            continue
        for each in records:
            if each.offset not in seen:
                yield each.offset, bytes(each.value or b"")
                seen.add(each.offset)
        return
