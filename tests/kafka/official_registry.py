"""The schemas of the golden topics for the official deserializers: a registry client that answers from a file."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import grpc_tools
from confluent_kafka.schema_registry import (
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaRegistryClient,
)
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

NOWHERE = "http://127.0.0.1:9"
"""What is not answered from the file is asked of a port without a server, and fails."""
PROTOC = Path(grpc_tools.__file__).parent / "_proto"
MAIN = "main-of-the-schema.proto"
ENTRY = re.compile(r"option map_entry = true;")
UNQUOTED = re.compile(r"(optional bytes \w+ = \d+ \[default = )(\w+)\]")


class FileRegistry(SchemaRegistryClient):
    """A client of a registry of one context, whose answers are those that the registry gave once.

    Args:
        schemas: the registry's answer to `GET /schemas?deleted=true`; of two with the same id the first counts.
        context: the context, as `.west`; empty for the default one.
    """

    def __init__(self, schemas: Iterable[Mapping[str, Any]], context: str = "") -> None:
        super().__init__({"url": NOWHERE})
        self._schemas = list(schemas)
        self._prefix = f":{context}:" if context else ""

    def get_schema(
        self,
        schema_id: int,
        subject_name: str | None = None,
        fmt: str | None = None,
        reference_format: str | None = None,
    ) -> Schema:
        return self._first(fmt, id=schema_id).schema

    def get_schema_by_guid(self, guid: str, fmt: str | None = None) -> Schema:
        return self._first(fmt, guid=guid).schema

    def get_version(
        self,
        subject_name: str,
        version: Any = "latest",
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        return self._first(fmt, subject=self._full(subject_name), version=version)

    def _full(self, subject: str) -> str:
        return subject if subject.startswith(":") else self._prefix + subject

    def _first(self, fmt: str | None, **asked: Any) -> RegisteredSchema:
        return self._made(self._row(**asked), is_serialized=fmt == "serialized")

    def _row(self, **asked: Any) -> Mapping[str, Any]:
        for row in self._schemas:
            is_here = "guid" in asked or self._is_here(row["subject"])
            if is_here and all(row[name] == value for name, value in asked.items()):
                return row
        raise LookupError(f"the registry does not have {asked}")

    def _is_here(self, subject: str) -> bool:
        return subject.startswith(self._prefix) if self._prefix else not subject.startswith(":")

    def _made(self, row: Mapping[str, Any], *, is_serialized: bool) -> RegisteredSchema:
        text = row["schema"]
        if is_serialized:
            text = b64encode(self._compiled(row)[-1].SerializeToString()).decode()
        references = [
            SchemaReference(each["name"], each["subject"], each["version"])
            for each in row.get("references", ())
        ]
        schema = Schema(text, row["schemaType"], references)
        return RegisteredSchema(row["subject"], row["version"], row["id"], row["guid"], schema)

    def message_type(self, name: str | None, **asked: Any) -> Descriptor:
        """The type of a Protobuf message.

        Args:
            name: its full name; None for the first of the file.
            asked: what the schema's row in the registry's answer has.
        """
        files = self._compiled(self._row(**asked))
        pool = DescriptorPool()
        for each in files:
            pool.Add(each)
        first = ".".join(filter(None, (files[-1].package, files[-1].message_type[0].name)))
        return pool.FindMessageTypeByName(name or first)

    def _compiled(self, row: Mapping[str, Any]) -> list[FileDescriptorProto]:
        """What Google's compiler makes of a `.proto` text, behind the files that the text imports.

        The compiler refuses two texts that the registry wrote: a default of bytes has no quotes, and the entry of a map
        is a message of its own. Both are put right here.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._put(row, MAIN, folder)
            known, out = folder / "known", folder / "out"
            files = FileDescriptorSet()
            for module in (descriptor_pb2, meta_pb2, decimal_pb2):
                module.DESCRIPTOR.CopyToProto(files.file.add())
            known.write_bytes(files.SerializeToString())
            command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{PROTOC}"]
            options = [f"--descriptor_set_in={known}", f"--descriptor_set_out={out}"]
            command += [*options, "--include_imports", MAIN]
            subprocess.run(command, check=True, stderr=subprocess.PIPE)
            made = list(FileDescriptorSet.FromString(out.read_bytes()).file)
        for message in made[-1].message_type:
            for inner in message.nested_type:
                if inner.options.deprecated:
                    inner.options.map_entry = True
                    inner.options.ClearField("deprecated")
        return made

    def _put(self, row: Mapping[str, Any], name: str, folder: Path) -> None:
        text = ENTRY.sub("option deprecated = true;", row["schema"])
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(UNQUOTED.sub(r'\1"\2"]', text))
        for each in row.get("references", ()):
            referred = self._row(subject=self._full(each["subject"]), version=each["version"])
            self._put(referred, each["name"], folder)
