"""An S3 store by moto behind a small proxy that notes each request, and fails as it is told."""

from __future__ import annotations

import http.client
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import NamedTuple

BUCKET = "logs"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "reader",
    "AWS_SECRET_ACCESS_KEY": "not used",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
RESET, CUT, SLOW_DOWN, FORBIDDEN, GONE = 1, 2, 503, 403, 404


class Request(NamedTuple):
    """A request as the store got it, and the bytes of its answer."""

    method: str
    key: str
    query: str
    bytes: int

    @property
    def is_list(self) -> bool:
        return "list-type" in self.query


Fault = Callable[[Request, int], float]
"""Returns, for a request and its number, what happens to it: 0 nothing, below 0 a delay in seconds, RESET, CUT, or a status."""


class ObjectStore:
    """A bucket in a store.

    Attributes:
        endpoint: URL of the proxy.
        requests: what was asked for through the proxy since `forget`.
        methods: the methods of all requests.
        fault: what happens to a request.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.requests: list[Request] = []
        self.methods: set[str] = set()
        self.fault: Fault = lambda *_: 0
        self._lock = Lock()
        self._number = 0
        self._server = _Server(("127.0.0.1", 0), _handler(self, port))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def make_bucket(self) -> None:
        """Make the bucket, as soon as the store answers."""
        for _ in range(300):
            with suppress(OSError):
                return self._ask("PUT", "", b"")
            time.sleep(0.1)
        raise TimeoutError("the store does not answer")

    def put(self, key: str, data: bytes) -> None:
        self._ask("PUT", key, data)

    def delete(self, key: str) -> None:
        self._ask("DELETE", key, None)

    def put_folder(self, folder: Path, prefix: str) -> str:
        """Copy a folder into the bucket; return its URL."""
        for path in folder.rglob("*"):
            if path.is_file():
                self.put(f"{prefix}/{path.relative_to(folder)}", path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def forget(self) -> None:
        self.requests.clear()
        self.fault = lambda *_: 0

    def gets(self) -> list[Request]:
        return [each for each in self.requests if not each.is_list and each.method == "GET"]

    def note(self, request: Request) -> float:
        with self._lock:
            self.requests.append(request)
            self.methods.add(request.method)
            self._number += 1
            return self.fault(request, self._number)

    def _ask(self, method: str, key: str, data: bytes | None) -> None:
        url = f"http://127.0.0.1:{self._port}/{BUCKET}/{key}"
        sign = "AWS4-HMAC-SHA256 Credential=writer/20260101/us-east-1/s3/aws4_request"
        headers = {
            "Authorization": f"{sign}, SignedHeaders=host, Signature=0",
            "Content-Type": "application/octet-stream",
        }
        request = urllib.request.Request(url, data=data, method=method, headers=headers)
        urllib.request.urlopen(request, timeout=30).close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """Take no notice of clients that are gone."""


def _handler(store: ObjectStore, port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write no log."""

        def __getattr__(self, name: str) -> Callable[[], None]:
            if not name.startswith("do_"):
                raise AttributeError(name)
            return self._answer

        def _answer(self) -> None:
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            headers = {name: value for name, value in self.headers.items() if name != "Host"}
            upstream.request(self.command, self.path, headers=headers)
            answer = upstream.getresponse()
            data = answer.read()
            upstream.close()
            path, _, query = self.path.partition("?")
            size = len(data) if self.command != "HEAD" else 0
            key = path.removeprefix(f"/{BUCKET}").strip("/")
            fault = store.note(Request(self.command, key, query, size))
            if fault < 0:
                time.sleep(-fault)
            status, is_cut = answer.status, fault == CUT
            if fault == RESET:
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
                self.close_connection = True
                return
            if fault > CUT:
                status, data = int(fault), b"<Error><Code>SlowDown</Code></Error>"
            self.send_response(status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else len(data)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if is_cut else data)
            self.close_connection |= is_cut

    return Handler


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    """Start a store with an empty bucket, in a process of its own: its objects are in files that a fork would share."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        store = ObjectStore(port)
        store.make_bucket()
        yield store
        store.close()
    finally:
        server.kill()
        server.wait()
