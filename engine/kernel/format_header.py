"""Generate c/format.h: Kafka's sizes, positions and numbers for the C code, from their Python declarations.

Print it with `python -m engine.kernel.format_header`; a test fails when the file is stale.
"""

from __future__ import annotations

import sys

from engine.coding.compression import LAST_CODEC, CompressionType
from engine.record import attributes
from engine.record.batch_frame import (
    CRC_COVERS_FROM,
    HEADER,
    LOG_OVERHEAD,
    MESSAGE_HEADERS,
    SMALLEST_BATCH,
    SMALLEST_LENGTH,
    UP_TO_MAGIC,
    BatchHeader,
    MessageHeader1,
)

_HEAD = """\
/* Made by `python -m engine.kernel.format_header` from engine/record/batch_frame.py, engine/record/attributes.py
 * and engine/coding/compression.py. */
#ifndef KFS_FORMAT_H
#define KFS_FORMAT_H
"""


def format_header() -> str:
    """Return the text of c/format.h."""
    sizes = {
        "LOG_OVERHEAD": LOG_OVERHEAD,
        "UP_TO_MAGIC": UP_TO_MAGIC,
        "SMALLEST_LENGTH": SMALLEST_LENGTH,
        **{f"V{magic}_OVERHEAD": size for magic, size in SMALLEST_BATCH.items()},
        "CRC_START_LEGACY": CRC_COVERS_FROM[0],
        "CRC_START_V2": CRC_COVERS_FROM[2],
    }
    batch = {f"AT_{name.upper()}": HEADER.position_of(name) for name in BatchHeader._fields}
    message = {
        f"MESSAGE_AT_{name.upper()}": MESSAGE_HEADERS[1].position_of(name)
        for name in MessageHeader1._fields[2:]
    }
    body = {
        f"BODY_AT_{name.upper()}": MESSAGE_HEADERS[1].position_of(name) - LOG_OVERHEAD
        for name in MessageHeader1._fields[3:]
    }
    body |= {
        f"BODY_AT_KEY_V{magic}": MESSAGE_HEADERS[magic].size - LOG_OVERHEAD for magic in (0, 1)
    }
    bits = {
        name: value for name, value in sorted(vars(attributes).items()) if name.endswith("_MASK")
    }
    codecs = {f"CODEC_{codec.name}": int(codec) for codec in CompressionType}
    codecs["LAST_CODEC"] = LAST_CODEC
    parts = (
        ("Bytes; with V0, V1 and V2 those of an empty batch.", sizes),
        ("Positions in the header of a batch of magic 2.", batch),
        ("Positions in the header of a message of magic 0 or 1.", message),
        ("Positions in such a message behind its offset and size.", body),
        ("Bits of a batch's attributes.", bits),
        ("Codecs.", codecs),
    )
    enums = [
        f"/* {title} */\nenum {{\n"
        + "".join(f"    KFS_{name} = {value},\n" for name, value in numbers.items())
        + "};\n"
        for title, numbers in parts
    ]
    names = ", ".join(f'"{label}"' for label in attributes.codec_labels("unknown({})"))
    enums.append(
        f"/* Names of codecs, as DumpLogSegments prints them. */\n#define KFS_CODEC_NAMES {names}\n"
    )
    return "\n".join([_HEAD, *enums, "#endif\n"])


if __name__ == "__main__":
    sys.stdout.write(format_header())
