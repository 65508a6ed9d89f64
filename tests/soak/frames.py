"""Malformed requests to a running `kafkafs serve`: mutations of frames of every API in every version.

The server has to stay, to answer another client, to keep its memory, and to leave its source as it was.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from engine.topics.message.schema import Array, Message, Scalar, Struct, Type
from kafkafs.serve.protocol.api import Api
from tests.fixtures_data import copy_of
from tests.kafkafs.serve.connection import Connection, request
from tests.kafkafs.serve.serving import Served, serving
from tests.messages import encode
from tests.soak.mutator import EDGE_NUMBERS, changed
from tests.soak.parts import Job, Part

METADATA = 3
SHOWN = ["orders-0", "txn-0", "weird-0", "__consumer_offsets-0"]
OPEN = 64
"""Connections that are open at the same time, answered or not."""
ROUND = 1000
"""Inputs between two looks at the server."""
MOST_GROWTH = 64 << 20
NAMES = (
    "orders",
    "txn",
    "weird",
    "__consumer_offsets",
    "none",
    "",
    "billing-0",
    "range",
    "consumer",
)
KEYS = sorted(Api)


def value(kind: Type, message: Message, version: int, random: Random) -> Any:
    """A value of a field, often one that means something to the server."""
    if isinstance(kind, Struct):
        return fields(kind.fields, message, version, random)
    if isinstance(kind, Array):
        return [
            value(kind.element, message, version, random)
            for _ in range(random.choice((0, 1, 1, 2, 5)))
        ]
    if kind is Scalar.STRING:
        return random.choice(NAMES)
    if kind is Scalar.BYTES:
        return random.randbytes(random.choice((0, 1, 8, 80)))
    if kind is Scalar.UUID:
        return random.choice(("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"))
    if kind is Scalar.BOOL:
        return random.random() < 0.5
    if kind is Scalar.FLOAT64:
        return random.random()
    bits = {
        Scalar.INT8: 8,
        Scalar.INT16: 16,
        Scalar.UINT16: 15,
        Scalar.INT32: 32,
        Scalar.INT64: 64,
    }[kind]
    number = random.choice((0, 0, 1, 1, -1, 100, 1000, random.choice(EDGE_NUMBERS)))
    return (
        abs(number) % 2**15
        if bits == 15
        else (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    )


def fields(
    known: tuple[Any, ...], message: Message, version: int, random: Random
) -> dict[str, Any]:
    """Values of some fields of a structure; the others have their defaults."""
    return {
        field.name: value(field.type, message, version, random)
        for field in known
        if field.is_in(version) and random.random() < 0.9
    }


def frame(number: int, seed: int) -> bytes:
    """One request with its length, most of them malformed; the length is mostly right."""
    random = Random(f"{seed} {number}")
    key = KEYS[number % len(KEYS)]
    message = Api(key).request
    version = random.randint(message.first_version, message.last_version)
    head = struct.pack(">hhih", key, version, number & 0x7FFFFFFF, 4) + b"soak"
    if message.is_flexible(version):
        head += b"\0"
    data = head + encode(message, version, fields(message.fields, message, version, random))
    if random.random() < 0.9:
        kept = 4 if random.random() < 0.7 else 0  # mostly the API and its version stay
        data = data[:kept] + changed(data[kept:], random)
    size = len(data) if random.random() < 0.95 else random.choice(EDGE_NUMBERS) % 2**31
    return struct.pack(">I", size) + data


def state_of(source: Path) -> dict[str, tuple[int, int, str]]:
    """Content and times of the files of a source."""
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_ctime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        for path in source.rglob("*")
        if path.is_file()
    }  # fmt: skip


def send(served: Served, data: bytes, opened: deque[socket.socket], random: Random) -> None:
    """Send a request on a connection of its own, which stays open for a while or is reset within the answer."""
    channel = socket.create_connection((served.host, served.port), 30)
    channel.settimeout(0)
    try:
        channel.send(data)
    except OSError:
        channel.close()
        return
    opened.append(channel)
    if len(opened) > OPEN:
        oldest = opened.popleft()
        with suppress(OSError):
            oldest.recv(random.choice((1, 1000, 1 << 16)))
        if random.random() < 0.5:
            oldest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        oldest.close()


def is_served(served: Served) -> bool:
    """Whether another client is answered."""
    with Connection(served) as other:
        other.send(request(METADATA, 9, 1, topics=[{"name": "orders"}]))
        return [each["name"] for each in other.answer(METADATA, 9, 1)["topics"]] == ["orders"]


def send_frames(job: Job) -> None:
    """Requests to one server, ROUND of them between two looks at it."""
    with tempfile.TemporaryDirectory(prefix="soak-serve-") as work:
        source = copy_of("current", Path(work), SHOWN)
        before = state_of(source)
        opened: deque[socket.socket] = deque()
        with serving(source, Path(work)) as served:
            job.start()
            memory = 0
            for numbers in job.batches(ROUND):
                random = Random(f"{job.seed} {numbers.start}")
                for number in numbers:
                    send(served, frame(number, job.seed), opened, random)
                why = wrong(served, memory)
                memory = memory or served.resident_bytes()
                if why:
                    job.find(numbers.start, why, count=len(numbers))
                    break
            job.note("bytes of memory more", served.resident_bytes() - memory)
            while opened:
                opened.pop().close()
            text = served.log.read_text()
        if "Traceback" in text:
            job.find(job.first, text[text.index("Traceback") - 300 :][:3000], count=job.tried)
        if state_of(source) != before:
            job.find(job.first, "the source has changed", count=job.tried)


def wrong(served: Served, memory: int) -> str:
    """What is wrong with a server, "" for nothing; `memory` is that of the first look, 0 before it."""
    if served.process.poll() is not None:
        return f"the server ended: {served.log.read_text()[-2000:]}"
    try:
        if not is_served(served):
            return "another client has a wrong answer"
    except (OSError, AssertionError) as error:
        return f"another client is not answered: {error!r}"
    grown = served.resident_bytes() - memory
    return f"the memory has grown by {grown} bytes" if memory and grown > MOST_GROWTH else ""


PARTS = (Part("serve", "malformed requests to a server", "requests", send_frames),)
