"""A topic whose values get a newer schema."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import fastavro

from tests.builders import Rec, batch, write_segment
from tests.schema_records import NOW, schema_record, write_topic


def a_record(*fields: str) -> str:
    names = [{"name": name, "type": "long", "default": 0} for name in fields]
    return json.dumps({"type": "record", "name": "R", "fields": names})


def framed(schema: str, id_: int, **values: int) -> bytes:
    out = io.BytesIO(b"\x00" + id_.to_bytes(4, "big"))
    out.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(out, json.loads(schema), values)
    return out.getvalue()


FIRST, SECOND = a_record("id"), a_record("id", "more")


def evolving(folder: Path, *, is_later: bool, is_gone: bool = False) -> Path:
    """Write a log dir with the topic `orders`, and return it.

    Args:
        folder: the log dir, written anew.
        is_later: whether it has the second schema and a value of it, too.
        is_gone: whether the first schema is gone.
    """
    shutil.rmtree(folder, ignore_errors=True)
    schemas = [schema_record(schema=FIRST, timestamp=NOW)]
    batches = [batch([Rec(framed(FIRST, 1, id=1), timestamp=NOW)], 0)]
    if is_later:
        schemas.append(schema_record(version=2, id_=2, schema=SECOND, timestamp=NOW + 1000))
        values = [framed(SECOND, 2, id=2, more=3)]
        batches += [batch([Rec(each, timestamp=NOW + 2000) for each in values], 1)]
    if is_gone:
        schemas = schemas[1:]
    write_topic(folder, schemas)
    write_segment(folder / "orders-0", batches, 0)
    return folder
