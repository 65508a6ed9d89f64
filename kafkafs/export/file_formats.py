"""Formats of an export's files and their codecs; nothing of Arrow is imported here."""

from __future__ import annotations

from kafkafs.export.errors import OptionError


class FileFormat:
    """A format of files.

    Attributes:
        name: its name on the command line.
        suffix: ending of the files' names.
        codecs: its codecs; the first one is used by default.
    """

    def __init__(self, name: str, suffix: str, *codecs: str) -> None:
        self.name = name
        self.suffix = suffix
        self.codecs = codecs

    def codec(self, wanted: str | None) -> str:
        """Return the codec to use.

        Raises:
            OptionError: the format does not have it.
        """
        if wanted is None:
            return self.codecs[0]
        if wanted not in self.codecs:
            raise OptionError(f"{self.name} has {', '.join(self.codecs)}, not codec {wanted!r}")
        return wanted

    def file_suffix(self, codec: str) -> str:
        """Return the ending of the files' names."""
        return self.suffix + (".gz" if self.name in ("csv", "jsonl") and codec == "gzip" else "")


FORMATS = {
    each.name: each
    for each in (
        FileFormat("parquet", ".parquet", "snappy", "zstd", "gzip", "lz4", "brotli", "none"),
        FileFormat("orc", ".orc", "snappy", "zstd", "lz4", "none"),
        FileFormat("csv", ".csv", "none", "gzip"),
        FileFormat("jsonl", ".jsonl", "none", "gzip"),
        FileFormat("avro", ".avro", "deflate", "snappy", "none"),
        FileFormat("arrow", ".arrow", "lz4", "zstd", "none"),
    )
}

CODECS = tuple(sorted({codec for each in FORMATS.values() for codec in each.codecs}))
