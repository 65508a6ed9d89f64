"""A log dir with canaries in each place of a record that a policy may hide, and the forms that their bytes may take."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from engine.coding.compression import CompressionType
from tests import builders
from tests.builders import Rec
from tests.kafkafs.built_logs import BuiltLog

CANARY = "canary-Zu7rich"
KEY = "a key of sixteen bytes or more"
_RAW = CANARY.encode()
_ESCAPED = "".join(f"\\u{ord(each):04x}" for each in CANARY).encode()
VALUES = [
    b'{"a":[{"secret":"%s"}],"n":1.10,"open":"yes"}' % _RAW,
    b'{"secret":"%s","open":"yes"}' % _ESCAPED,
    b'{"secret":"%s","open":"yes"}' % base64.b64encode(_RAW),
    b'{"secret":"%s","open":"yes"}' % _RAW.hex().encode(),
    b'{"a":"[{\\"secret\\":\\"%s\\"}]"}' % _RAW,
    b'{"a":[1],"a":[{"secret":"%s"}]}' % _RAW,
    b"[" * 200 + _RAW,
    _RAW,
    CANARY.encode("utf-16"),
    CANARY.encode("utf-16-be"),
    b"\xff\x00" + _RAW,
    b"\x00\x00\x00\x00\x07" + _RAW,
    b'"%s"' % _RAW,
    b'{"open":"yes"}',
    None,
]
POLICY = """
key_file = "mask.key"
[[rules]]
topics = ["customers", "customers-dlq"]
[rules.fields]
".key" = "hash"
".value.a[].secret" = "drop"
".value.secret" = "hash"
[rules.headers]
Trace = "drop"
"*" = { replace = "hidden" }
"""
FIELDS_ALONE = """
key_file = "mask.key"
[[rules]]
topics = ["customers"]
[rules.fields]
".value.a[].secret" = "drop"
".value.secret" = "hash"
"""
OPEN = b'{"public":"open sesame"}'


def written_policy(folder: Path, text: str = POLICY) -> str:
    """Write a policy and its key; return its path."""
    (folder / "mask.key").write_text(KEY)
    path = folder / "mask.toml"
    path.write_text(text)
    return str(path)


def write_source(folder: Path) -> None:
    """Write masked topics with batches of all formats, damaged ones among them, and a topic without a mask."""
    log = BuiltLog(folder, "customers-0")
    headers = [(b"trace", _RAW), (b"raw", b"\xff" + _RAW), (b"\xff" + _RAW, b"x"), (b"n", None)]
    records = [Rec(value, b"key-" + _RAW, headers=headers) for value in VALUES]
    records += [Rec(b"{}", b"\xff" + _RAW), Rec(b"{}", b'{"id":"%s"}' % _RAW)]
    batches: list[bytes] = []
    at = 0
    for codec in (CompressionType.NONE, CompressionType.GZIP, CompressionType.ZSTD):
        batches.append(builders.batch(records, at, codec))
        at += len(records)
    log.segment(batches, 0)
    old = []
    for magic in (0, 1):
        old.append(builders.message_set(records[:7], at, magic=magic))
        at += 7
    old.append(builders.batch([Rec(_RAW * 400_000, b"k")], at))
    old.append(builders.control_batch(9, _RAW, at + 1))
    damaged = bytearray(builders.batch(records[:3], at + 2))
    damaged[-20] ^= 1
    short = builders.batch(records[:3], at + 5, section=_RAW * 3, record_count=3)
    old += [bytes(damaged), short, builders.batch(records[:3], at + 8)]
    log.segment(old, 3 * len(records))
    left = log.folder / f"{0:020}.log.deleted"
    left.write_bytes(batches[0])
    BuiltLog(folder, "customers-dlq-0").segment([builders.batch(records[:4])], 0)
    gone = BuiltLog(folder, f"customers-1.{'0' * 32}-delete")
    gone.segment([builders.batch(records[:4])], 0)
    BuiltLog(folder, "other-0").segment([builders.batch([Rec(OPEN, b"k")] * 3)], 0)


def forms(data: bytes = _RAW) -> Iterator[bytes]:
    """Yield what bytes look like as they are, escaped, in UTF-16, in hexadecimal, and in base64 at each place in three."""
    yield data
    yield data.decode().encode("utf-16-le")
    yield data.decode().encode("utf-16-be")
    yield _ESCAPED
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for place in range(3):
        yield base64.b64encode(data[place : place + (len(data) - place) // 3 * 3])
    yield base64.b64encode(data.hex().encode()[:27])
    yield base64.b64encode(base64.b64encode(data)[:18])


def found_in(data: bytes) -> list[bytes]:
    """Return the forms of the canary that are in some bytes."""
    return [form for form in forms() if form in data]
