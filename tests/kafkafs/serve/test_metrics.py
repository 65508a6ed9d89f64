"""Metrics in the text format of Prometheus, and whether the source can be read."""

from __future__ import annotations

import re
import shutil
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from socket import create_server

from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection
from tests.kafkafs.serve.serving import serving

METADATA = 3


def read(place: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{place}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_monitor_reads_what_clients_do_and_whether_the_source_is_there(tmp_path: Path) -> None:
    source = copy_of("current", tmp_path, ["orders-0"])
    with closing(create_server(("127.0.0.1", 0))) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    with serving(source, tmp_path, "--metrics", place) as served, Connection(served) as client:
        for _ in range(3):
            client.ask(METADATA, 9, topics=None)
        status, text = read(place, "/metrics")
        assert status == 200
        for line in text.splitlines():
            assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"\})? [0-9.e+-]+', line)
        assert 'kafkafs_requests_total{api="Metadata"} 3\n' in text
        assert "kafkafs_connections 1\n" in text
        assert "kafkafs_partitions 1\n" in text
        assert read(place, "/healthz") == (200, "ok\n")
        assert read(place, "/")[0] == 404
        shutil.move(source, tmp_path / "gone")
        assert read(place, "/healthz") == (503, f"cannot be read: {source}\n")
