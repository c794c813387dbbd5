"""Generates messages, and their types for type checkers."""

from __future__ import annotations

import keyword
from typing import Dict, Iterable, Iterator, List, Tuple

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto

HEADER = "# Made of {} by petasos.compile: changes will be lost.\n"

_SCALARS = {
    Field.TYPE_BOOL: "bool",
    Field.TYPE_BYTES: "bytes",
    Field.TYPE_DOUBLE: "float",
    Field.TYPE_FLOAT: "float",
    Field.TYPE_STRING: "str",
}


def module(file_name: str) -> str:
    """The module of a file's messages."""
    base = file_name[: -len(".proto")] if file_name.endswith(".proto") else file_name
    return base.replace("-", "_").replace("/", ".") + "_pb2"


def alias(file_name: str) -> str:
    """The name under which a module is imported."""
    return "_" + module(file_name).replace("_", "__").replace(".", "_dot_")


def imports(names: Iterable[str]) -> str:
    """Imports of the modules of files."""
    return "".join(f"import {module(name)} as {alias(name)}\n" for name in names)


def type_names(files: Iterable[FileDescriptorProto]) -> Dict[str, Tuple[str, str]]:
    """The file, and the name in its module, of every type by its full name."""
    known: Dict[str, Tuple[str, str]] = {}

    def add(file: FileDescriptorProto, full: str, local: str, message: DescriptorProto) -> None:
        known[full] = (file.name, local)
        for nested in message.nested_type:
            add(file, f"{full}.{nested.name}", f"{local}.{nested.name}", nested)
        for enum in message.enum_type:
            known[f"{full}.{enum.name}"] = (file.name, f"{local}.{enum.name}")

    for file in files:
        package = f".{file.package}" if file.package else ""
        for message in file.message_type:
            add(file, f"{package}.{message.name}", message.name, message)
        for enum in file.enum_type:
            known[f"{package}.{enum.name}"] = (file.name, enum.name)
    return known


def messages(file: FileDescriptorProto) -> str:
    """A module as `protoc` makes it."""
    bare = FileDescriptorProto()
    bare.CopyFrom(file)
    bare.ClearField("source_code_info")
    name = module(file.name)
    return (
        HEADER.format(file.name)
        + "from google.protobuf import descriptor_pool as _descriptor_pool\n"
        + "from google.protobuf.internal import builder as _builder\n"
        + imports(file.dependency)
        + f"\n_FILE = {bare.SerializeToString()!r}\n"
        + "DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(_FILE)\n"
        + "_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())\n"
        + f"_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, {name!r}, globals())\n"
    )


def annotations(file: FileDescriptorProto, files: Iterable[FileDescriptorProto]) -> str:
    """The types of a module."""
    printer = _Printer(file, type_names(files))
    lines: List[str] = []
    for enum in file.enum_type:
        lines += printer.enum(enum, "")
    for message in file.message_type:
        lines += printer.message(message, "")
    return (
        HEADER.format(file.name)
        + "from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence\n"
        + "from typing import Any, ClassVar, Optional, Union\n\n"
        + "from google.protobuf.descriptor import FileDescriptor\n"
        + "from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper\n"
        + "from google.protobuf.message import Message\n"
        + imports(file.dependency)
        + "\nDESCRIPTOR: FileDescriptor\n"
        + "\n".join(lines)
        + "\n"
    )


class _Printer:
    def __init__(self, file: FileDescriptorProto, known: Dict[str, Tuple[str, str]]) -> None:
        self._file = file
        self._known = known

    def enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        yield f"\n{indent}class {enum.name}(int, metaclass=EnumTypeWrapper): ..."
        for value in enum.value:
            if not keyword.iskeyword(value.name):
                yield f"{indent}{value.name}: {enum.name}"

    def message(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        inner = indent + "    "
        entries = {it.name: it for it in message.nested_type if it.options.map_entry}
        yield f"\n{indent}class {message.name}(Message):"
        for enum in message.enum_type:
            yield from self.enum(enum, inner)
        for nested in message.nested_type:
            if not nested.options.map_entry:
                yield from self.message(nested, inner)
        arguments = []
        for field in message.field:
            if keyword.iskeyword(field.name):
                continue
            kept, given = self._field(field, entries)
            number = field.name.upper() + "_FIELD_NUMBER"
            yield f"{inner}{number}: ClassVar[int]"
            yield f"{inner}{field.name}: {kept}"
            arguments.append(f"{field.name}: Optional[{given}] = ...")
        rest = "".join(f", {argument}" for argument in ["*", *arguments] if arguments)
        yield f"{inner}def __init__(self{rest}) -> None: ..."

    def _field(self, field: Field, entries: Dict[str, DescriptorProto]) -> Tuple[str, str]:
        """The type of a field when read, and when passed to the message's constructor."""
        entry = entries.get(field.type_name.rsplit(".", 1)[-1])
        if entry is not None and field.type == Field.TYPE_MESSAGE:
            key, value = (self._type(part) for part in entry.field)
            return f"MutableMapping[{key}, {value}]", f"Mapping[{key}, {value}]"
        one = self._type(field)
        made = f"Union[{one}, Mapping[str, Any]]" if field.type == Field.TYPE_MESSAGE else one
        if field.label == Field.LABEL_REPEATED:
            return f"MutableSequence[{one}]", f"Iterable[{made}]"
        return one, made

    def _type(self, field: Field) -> str:
        if field.type not in (Field.TYPE_MESSAGE, Field.TYPE_ENUM):
            return _SCALARS.get(field.type, "int")
        file, name = self._known[field.type_name]
        name = name if file == self._file.name else f"{alias(file)}.{name}"
        return f"Union[{name}, int, str]" if field.type == Field.TYPE_ENUM else name
