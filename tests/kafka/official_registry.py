"""The schemas of the golden topics for the official deserializers: a registry client that answers from a file."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cached_property
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
        return self._first(fmt, is_in_any_context=True, guid=guid).schema

    def get_version(
        self,
        subject_name: str,
        version: Any = "latest",
        deleted: bool = False,
        fmt: str | None = None,
    ) -> RegisteredSchema:
        name = subject_name if subject_name.startswith(":") else self._prefix + subject_name
        return self._first(fmt, subject=name, version=version)

    def _first(
        self, fmt: str | None, *, is_in_any_context: bool = False, **asked: Any
    ) -> RegisteredSchema:
        for row in self._schemas:
            is_here = is_in_any_context or self._is_here(row["subject"])
            if is_here and all(row[name] == value for name, value in asked.items()):
                return self._made(row, is_serialized=fmt == "serialized")
        raise LookupError(f"the registry does not have {asked}")

    def _is_here(self, subject: str) -> bool:
        return subject.startswith(self._prefix) if self._prefix else not subject.startswith(":")

    def _made(self, row: Mapping[str, Any], *, is_serialized: bool) -> RegisteredSchema:
        text = row["schema"]
        if is_serialized:
            text = b64encode(self.compiled(row).SerializeToString()).decode()
        references = [
            SchemaReference(each["name"], each["subject"], each["version"])
            for each in row.get("references", ())
        ]
        schema = Schema(text, row["schemaType"], references)
        return RegisteredSchema(row["subject"], row["version"], row["id"], row["guid"], schema)

    def compiled(self, row: Mapping[str, Any]) -> descriptor_pb2.FileDescriptorProto:
        """A `.proto` text as Google's compiler reads it.

        The registry wrote two texts that the compiler refuses: a default of bytes without quotes, and an entry of a map
        that is a message. Both are put right before and after it.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self._put(row, MAIN, folder)
            known, out = folder / "known", folder / "out"
            files = descriptor_pb2.FileDescriptorSet()
            for module in (descriptor_pb2, meta_pb2, decimal_pb2):
                module.DESCRIPTOR.CopyToProto(files.file.add())
            known.write_bytes(files.SerializeToString())
            command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{PROTOC}"]
            options = [f"--descriptor_set_in={known}", f"--descriptor_set_out={out}", MAIN]
            subprocess.run([*command, *options], check=True)
            (made,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
        for message in made.message_type:
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
            found = self.get_version(each["subject"], each["version"])
            (row_of,) = [
                other
                for other in self._schemas
                if (other["subject"], other["version"]) == (found.subject, found.version)
            ][:1]
            self._put(row_of, each["name"], folder)
