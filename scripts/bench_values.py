"""Decoded values of a topic with an Avro schema: as lines, searched, and chosen by a condition. Whole processes.

Run by itself with a records file it is the peer of the lines: fastavro and orjson on batches that our kernel decoded.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import bench_data
import numpy as np
import orjson
from bench_jvm import run_process
from bench_report import Report, Sample
from bench_schemas import ORDER, PREFIX, order_values, read_order

from engine import kernel
from engine.columns.batch_table import BATCH_ROW
from tests.builders import Rec, batch, write_segment
from tests.schema_records import schema_record, write_topic

PER_BATCH = {"16 kB": 170, "230 kB": 2_400, "3.3 MB": 34_000}
"""Records of a batch, by about how large it is."""
RECORDS = "orders-0/records/00000000000000000000.jsonl"
FIND = ("leave at the door", ".value.amount > 990")


def run(report: Report, megabytes: int) -> None:
    """Lines of batches of each size; a search and a condition."""
    values = order_values(2500 * megabytes)
    for size, count in PER_BATCH.items():
        with tempfile.TemporaryDirectory(prefix="bench-values-") as made:
            log = _write(Path(made), values, count)
            kafkafs = shlex.join([sys.executable, "-m", "kafkafs"])
            cat = f"{kafkafs} cat {made} {RECORDS}"
            _compare(
                *(report, f"Avro lines, batches of {size}; fastavro + orjson", len(values)),
                *(cat, shlex.join([sys.executable, __file__, str(log)]), "cpu 10"),
            )
            if count == PER_BATCH["16 kB"]:
                _search(report, len(values), kafkafs, cat, made)


def _search(report: Report, count: int, kafkafs: str, cat: str, source: str) -> None:
    text, condition = map(shlex.quote, FIND)
    grep = f"{kafkafs} grep -c --topic orders"
    _compare(
        *(report, "Avro, grep -F; cat | grep -c", count),
        *(f"{grep} -F {text} {source}", f"{cat} | grep -c -F {text}", "cpu 2"),
    )
    if shutil.which("jq") is None:
        print("no row for jq: it is not installed (apt install jq)")
        return
    lines = Path(source, "lines")
    with open(lines, "wb") as out:
        subprocess.run(shlex.split(cat), stdout=out, check=True, env=bench_data.our_environment())
    jq = f"jq -c {shlex.quote(f'select({FIND[1]})')} {lines} | wc -l"
    _compare(
        *(report, "Avro, grep --where; jq on the same lines", count),
        *(f"{grep} --where {condition} {source}", jq, "cpu 1"),
    )


def _compare(report: Report, name: str, count: int, ours: str, peer: str, target: str) -> None:
    report.compare(
        *("values", name, count / 1000, "krecord/s"),
        lambda: _shell(ours),
        lambda: _shell(peer),
        target=target,
        warm=0,
    )


def _shell(line: str) -> Sample:
    return run_process(["sh", "-c", f"{line} | cat"], bench_data.our_environment())


def _write(source: Path, values: list[bytes], per_batch: int) -> Path:
    """Write a log dir with the topic and a registry's topic; return the topic's records file."""
    write_topic(source, [schema_record(id_=7, schema=json.dumps(ORDER))])
    records = [Rec(PREFIX + value, b"key") for value in values]
    starts = range(0, len(records), per_batch)
    batches = [batch(records[at : at + per_batch], at) for at in starts]
    return write_segment(source / "orders-0", batches)


def write_lines(file: Path) -> None:
    """Print a line of JSON for each record, with fewer fields than ours, as the peer does."""
    data = file.read_bytes()
    table = np.empty(len(data) // 1000 + 1, BATCH_ROW.dtype)
    filled, _, _ = kernel.walk(data, table, 0, 0, False)
    columns = kernel.decode(data, table, 0, filled, start_position=0, enough=2**62)
    offsets, timestamps = columns.offset.tolist(), columns.timestamp.tolist()
    for row, (offset, timestamp) in enumerate(zip(offsets, timestamps, strict=True)):
        value, key = columns.value(row) or b"", columns.key(row) or b""
        line = {"offset": offset, "timestamp": timestamp, "key": key.decode()}
        made = {
            "topic": "orders",
            "partition": 0,
            **line,
            "value": read_order(value[len(PREFIX) :]),
        }
        sys.stdout.buffer.write(orjson.dumps(made, default=str, option=orjson.OPT_APPEND_NEWLINE))


if __name__ == "__main__":
    write_lines(Path(sys.argv[1]))
