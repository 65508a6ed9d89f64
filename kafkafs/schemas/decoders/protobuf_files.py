"""Protobuf schemas: `.proto` texts or FileDescriptorProtos in base64 to linked descriptors.

protoc, in this process by `grpcio-tools`, compiles the texts. It reads files, so texts lie in a temporary folder meanwhile;
protoc itself refuses imports with `..` in them. Texts that may import a FileDescriptorProto are compiled in a process of
their own, because protoc takes such files only on its command line. Files that a registry does not ask for as references are found here, too:
Google's well-known and common types, and Confluent's own.
"""

from __future__ import annotations

import ast
import binascii
import re
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from kafkafs.schemas.decoders.limits import check_schema_size
from kafkafs.schemas.errors import UndecodableError

if TYPE_CHECKING:
    from google.protobuf.descriptor import FileDescriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

MAIN_FILE = "main.proto"
"""Name of the schema's own file, which a registry does not keep."""

_BUILT_IN = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1;
          map<string, string> params = 2;
          repeated string tags = 3;
        }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
        """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal {
          bytes value = 1;
          uint32 precision = 2;
          int32 scale = 3;
        }
        """,
    "confluent/types/decimal.proto": """
        syntax = "proto3";
        import public "confluent/type/decimal.proto";
        """,
}
"""Files that Confluent's registry has built in; the last one under the name of its older Go client."""

_SYNTAX = re.compile(r"^[ \t]*(?:syntax|edition)\s*=", re.MULTILINE)
_BARE_BYTES = re.compile(
    r"""(\bbytes\s{1,20}\w{1,200}\s{0,20}=\s{0,20}\d{1,9}\s{0,20}\[(?:[^]"']{0,200},)?\s{0,20}default\s{0,20}=\s{0,20})"""
    r"""([^"'\s,\]][^,\]]{0,200})"""
)
"""The default of bytes without quotes: so Confluent's registry writes it in a schema's normal form."""
_MAP_ENTRY = re.compile(r"\boption\s{1,20}map_entry\s{0,20}=\s{0,20}true\s{0,20};")
"""The option of a map's entry, which Confluent's registry writes out and protoc refuses."""
_MARK = "option deprecated = true;"
_OLD_SYNTAX = 'syntax = "proto2"; '
"""What a file without a syntax has; written out, because protoc warns on the process's standard error."""

_MOST_SECONDS = 60
_PROTOC = (
    "import sys; sys.path[:] = eval(sys.argv.pop(1)); "
    "from grpc_tools import protoc; sys.exit(protoc.main(sys.argv))"
)

_compiling = threading.Lock()
"""protoc keeps state of its plugins in the process."""


@contextmanager
def needed(extra: str, what: str) -> Iterator[None]:
    """Turn an ImportError into an UndecodableError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        raise UndecodableError(
            f"{what} needs a package that is not installed ({error.name}): "
            f"pip install 'kafkafs[{extra}]'"
        ) from None


class LinkedFile(NamedTuple):
    """A schema's file, linked with the files that it imports."""

    file: FileDescriptor
    pool: DescriptorPool


def link(text: str, references: Iterable[tuple[str, str]] = ()) -> LinkedFile:
    """Return the descriptor of a schema's file.

    Args:
        text: `.proto` text, or a FileDescriptorProto in base64.
        references: names as in `import`, and texts, each after those that it needs itself.

    Raises:
        UndecodableError: the text is no schema, or an import is missing.
    """
    files = {_checked_name(name): content for name, content in references}
    check_schema_size([*files.values(), text])
    with needed("schemas", "Protobuf"):
        from google.protobuf.descriptor_pool import DescriptorPool
    pool = DescriptorPool()
    binary = {name: found for name, each in files.items() if (found := descriptor_of(each))}
    main = descriptor_of(text)
    name = MAIN_FILE if main is None else main.name or MAIN_FILE
    protos: dict[str, FileDescriptorProto] = dict(binary)
    for each, proto in binary.items():
        proto.name = each
    texts = {each: content for each, content in files.items() if each not in binary}
    if main is None:
        while name in files:
            name = "_" + name
        texts[name] = text
        protos.update({**_compiled(texts, [name], binary), **protos})
    else:
        main.name = name
        protos[name] = main
        imports = [each for proto in protos.values() for each in proto.dependency]
        wanted = [each for each in dict.fromkeys(imports) if each not in protos]
        if wanted:
            protos.update({**_compiled(texts, wanted, binary), **protos})
    _add(pool, protos, name)
    return LinkedFile(pool.FindFileByName(name), pool)


def descriptor_of(text: str) -> FileDescriptorProto | None:
    """Return the FileDescriptorProto that a text is in base64; None for other texts."""
    with needed("schemas", "Protobuf"):
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.message import DecodeError
    if not text.strip() or "{" in text or ";" in text:
        return None
    try:
        return FileDescriptorProto.FromString(b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _checked_name(name: str) -> str:
    parts = name.split("/")
    if not name or "\0" in name or "\\" in name or {"", ".", ".."} & set(parts):
        raise UndecodableError(f"an import has the name {name!r}")
    return name


def _compiled(
    texts: Mapping[str, str], wanted: list[str], binary: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Return the descriptors of files and of what they import.

    Args:
        texts: files by name.
        wanted: names of files to compile.
        binary: files that the texts may import, too.
    """
    try:
        return _compiled_once(texts, wanted, binary)
    except UndecodableError:
        mended = {name: _BARE_BYTES.sub(r'\1"\2"', text) for name, text in texts.items()}
        mended = {name: _MAP_ENTRY.sub(_MARK, text) for name, text in mended.items()}
        if mended == texts:
            raise
        found = _compiled_once(mended, wanted, binary)
        for name in texts:
            if name in found and mended[name] != texts[name]:
                for message in found[name].message_type:
                    _restore_entries(message)
        return found


def _restore_entries(message: DescriptorProto) -> None:
    """Make the nested messages that `_MARK` is in the entries of maps again."""
    for each in message.nested_type:
        if each.options.deprecated and [field.name for field in each.field] == ["key", "value"]:
            each.options.deprecated = False
            each.options.map_entry = True
        _restore_entries(each)


def _compiled_once(
    texts: Mapping[str, str], wanted: list[str], binary: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    with needed("schemas", "Protobuf"):
        import grpc_tools
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from grpc_tools import _protoc_compiler as protoc
    built_in = Path(grpc_tools.__file__).parent / "_proto"
    found: dict[str, FileDescriptorProto] = {}
    try:
        with TemporaryDirectory(prefix="kafkafs-") as folder:
            for name, text in {**_BUILT_IN, **texts}.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                if not _SYNTAX.search(text):
                    text = _OLD_SYNTAX + text
                path.write_text(text, encoding="utf-8")
            folders = [folder, str(built_in), *_common_protos()]
            if binary and texts:
                return _compiled_apart(folders, wanted, binary)
            for name in wanted:
                with _compiling:
                    made = protoc.get_protos(name.encode(), [each.encode() for each in folders])
                    # CPython 3.11 fails when two threads make syntax trees at once (gh-106905).
                    files = [_serialized(code) for _, code in made]
                for file in files:
                    proto = FileDescriptorProto.FromString(file)
                    found.setdefault(proto.name, proto)
    except (OSError, ValueError) as error:
        raise UndecodableError(f"the schema's files cannot be written: {error}") from None
    except (protoc.ProtocErrors, protoc.ProtocWarning) as error:
        raise UndecodableError(_not_compiling(_said(error))) from None
    return found


def _compiled_apart(
    folders: list[str], wanted: list[str], binary: Mapping[str, FileDescriptorProto]
) -> dict[str, FileDescriptorProto]:
    """Return what `_compiled` does, made by a process of protoc; the first folder takes its files."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    for name in wanted:
        if name.startswith(("-", "@")):  # protoc would take it as an option
            raise UndecodableError(f"an import has the name {name!r}")
    given, made = (Path(folders[0]) / name for name in ("given.binpb", "made.binpb"))
    given.write_bytes(FileDescriptorSet(file=binary.values()).SerializeToString())
    options = [f"--proto_path={each}" for each in folders]
    options += [f"--descriptor_set_in={given}", "--include_imports", f"--descriptor_set_out={made}"]
    command = [sys.executable, "-c", _PROTOC, repr(sys.path), *options, *wanted]
    try:
        run = subprocess.run(command, capture_output=True, timeout=_MOST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise UndecodableError(f"the schema takes more than {_MOST_SECONDS} s to compile") from None
    if run.returncode:
        said = run.stderr.decode("utf-8", "replace").replace(f"{folders[0]}/", "")
        raise UndecodableError(_not_compiling(said.splitlines()))
    files = FileDescriptorSet.FromString(made.read_bytes()).file
    return {each.name: each for each in files}


def _serialized(code: bytes) -> bytes:
    """Return the serialized descriptor in the Python module that protoc makes of a file."""
    for call in ast.walk(ast.parse(code)):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "AddSerializedFile"
            and isinstance(call.args[0], ast.Constant)
        ):
            content = call.args[0].value
            if isinstance(content, bytes):
                return content
    raise ValueError("protoc made no descriptor")


def _said(error: Exception) -> list[str]:
    """Return the lines of what protoc says; its own `str` fails at bytes above 7F, which it quotes from the text."""
    found = []
    for each in error.errors() if hasattr(error, "errors") else [error]:
        given = [
            part.decode("utf-8", "replace") if isinstance(part, bytes) else part
            for part in each.args
        ]
        found.append("{}:{}:{} error: {}".format(*given) if len(given) == 4 else str(given))
    return found


def _not_compiling(lines: list[str]) -> str:
    return f"the schema does not compile: {(lines or ['no reason given'])[0][:300]}"


def _common_protos() -> Iterator[str]:
    """Yield the folder of Google's common types, `google/type/*.proto`."""
    with suppress(ImportError):
        import google.type

        for path in google.type.__path__:
            yield str(Path(path).parent.parent)


def _add(pool: DescriptorPool, protos: Mapping[str, FileDescriptorProto], name: str) -> None:
    """Add a file to a pool after the files that it imports."""
    done: set[str] = set()
    todo = [(name, False)]
    while todo:
        each, is_ready = todo.pop()
        if each in done:
            continue
        proto = protos.get(each)
        if proto is None:
            raise UndecodableError(f"the schema imports {each!r}, which is not known")
        if not is_ready:
            if (each, True) in todo:
                raise UndecodableError(f"{each!r} imports itself")
            todo.append((each, True))
            todo += [(needs, False) for needs in proto.dependency if needs not in done]
            continue
        done.add(each)
        try:
            pool.Add(proto)
        except TypeError as error:
            raise UndecodableError(f"the schema does not link: {str(error)[:300]}") from None
