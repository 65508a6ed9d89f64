"""Files of an export in each format: Arrow record batches, or record lines, become bytes in a file."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol, TypeAlias, cast

import pyarrow as pa

from engine.disk.disk import WritableFile
from kafkafs.export.avro_files import AvroFile
from kafkafs.export.file_columns import csv_columns, millisecond_columns

Batches: TypeAlias = Sequence[pa.RecordBatch]
_DICTIONARY = (
    "partition",
    "timestampType",
    "key",
    "transaction",
    "codec",
    "headers.list.element.key",
)
"""Columns with few different values."""


class FileOutput(io.RawIOBase):
    """A new file as a stream that libraries write to."""

    def __init__(self, file: WritableFile) -> None:
        super().__init__()
        self._file = file
        self._position = 0

    def writable(self) -> bool:
        """Return that bytes can be written."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._position

    def write(self, data: Any) -> int:  # noqa: ANN401 - what has bytes
        """Write all of `data`. Raises OSError."""
        view = memoryview(data).cast("B")
        self._file.write_at(self._position, view)
        self._position += len(view)
        return len(view)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


class FileWriter(Protocol):
    """Writer of one file; the file is complete after `close`."""

    def write(self, batches: Batches) -> None:
        """Write some records."""

    def close(self) -> None:
        """Write what ends the file, and close it."""


class ParquetFile:
    """A Parquet file; each `write` makes a row group."""

    def __init__(self, output: FileOutput, schema: pa.Schema, compression: str) -> None:
        import pyarrow.parquet as pq

        self._output = output
        self._schema = schema
        kept = {name.partition(".")[0]: name for name in _DICTIONARY}
        self._writer = pq.ParquetWriter(
            output,
            self._schema,
            compression=compression,
            use_dictionary=[kept[name] for name in schema.names if name in kept],
        )

    def write(self, batches: Batches) -> None:
        """Write some records as a row group."""
        table = pa.Table.from_batches(batches, self._schema)
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        """Write the footer, and close the file."""
        self._writer.close()
        self._output.close()


class ArrowFile:
    """A file of Arrow's IPC format."""

    def __init__(self, output: FileOutput, schema: pa.Schema, compression: str) -> None:
        self._output = output
        options = pa.ipc.IpcWriteOptions(compression=None if compression == "none" else compression)
        self._writer = pa.ipc.new_file(output, schema, options=options)

    def write(self, batches: Batches) -> None:
        """Write some records."""
        for batch in batches:
            self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the footer, and close the file."""
        self._writer.close()
        self._output.close()


class OrcFile:
    """An ORC file."""

    def __init__(self, output: FileOutput, compression: str) -> None:
        from pyarrow import orc

        self._output = output
        codec = "uncompressed" if compression == "none" else compression
        self._writer = orc.ORCWriter(output, compression=codec)

    def write(self, batches: Batches) -> None:
        """Write some records."""
        self._writer.write(pa.Table.from_batches([millisecond_columns(each) for each in batches]))

    def close(self) -> None:
        """Write the footer, and close the file."""
        self._writer.close()
        self._output.close()


class CsvFile:
    """A CSV file with a header; null is an empty field, empty text is in quotes."""

    def __init__(self, output: FileOutput, values: str, compression: str) -> None:
        self._output = _compressed(output, compression)
        self._values = values
        self._writer: Any = None

    def write(self, batches: Batches) -> None:
        """Write some records."""
        import pyarrow.csv

        for batch in batches:
            shown = csv_columns(batch, self._values)
            if self._writer is None:
                self._writer = pyarrow.csv.CSVWriter(self._output, shown.schema)
            self._writer.write_batch(shown)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
        self._output.close()


class LinesFile:
    """A file of record lines."""

    def __init__(self, output: FileOutput, compression: str) -> None:
        self._output = _compressed(output, compression)

    def write(self, texts: Sequence[bytes]) -> None:
        """Write some lines."""
        for text in texts:
            self._output.write(text)

    def close(self) -> None:
        """Close the file."""
        self._output.close()


class _Gzip(gzip.GzipFile):
    """A gzip stream that closes the file below it."""

    def __init__(self, output: FileOutput) -> None:
        super().__init__(filename="", mode="wb", compresslevel=6, fileobj=output, mtime=0)
        self._below = output

    def close(self) -> None:
        super().close()
        self._below.close()


def _compressed(output: FileOutput, compression: str) -> IO[bytes]:
    if compression == "gzip":
        return cast("IO[bytes]", _Gzip(output))
    return cast("IO[bytes]", output)


MakeFile: TypeAlias = Callable[[FileOutput, pa.Schema], FileWriter | LinesFile]


def file_maker(form: str, values: str, codec: str) -> MakeFile:
    """Return the function that begins a file of a format for record batches of a schema.

    Args:
        form: name in `file_formats.FORMATS`.
        values: form of bytes in CSV.
        codec: codec of the files.
    """

    def make(output: FileOutput, schema: pa.Schema) -> FileWriter | LinesFile:
        match form:
            case "parquet":
                return ParquetFile(output, schema, codec)
            case "arrow":
                return ArrowFile(output, schema, codec)
            case "orc":
                return OrcFile(output, codec)
            case "csv":
                return CsvFile(output, values, codec)
            case "avro":
                return AvroFile(output, codec)
            case _:
                return LinesFile(output, codec)

    return make
