"""Makes Python of .proto files: `python -m petasos.compile [-I DIRECTORY] [--out DIRECTORY] FILE…`.

For `greeter.proto` there will be:

- `greeter_pb2.py`, the messages, as `protoc` would make them, with `greeter_pb2.pyi`, their types;
- `greeter_petasos.py`, for each service a stub, a servicer and what adds it to a server.

No `protoc` is needed: the files are read by Petasos' own compiler.
"""

from __future__ import annotations

import argparse
import sys
from ctypes import byref
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Sequence

from google.protobuf import descriptor_pb2

from . import _stubs, _types
from ._library import Bytes, check, lib, take_bytes, texts
from ._status import RpcError


def descriptors(files: Iterable[str], includes: Iterable[str]) -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of files and of all that they import.

    Raises RpcError, whose text says where in which file, if something is wrong in them.
    """
    (file_list, file_count), (include_list, include_count) = texts(files), texts(includes)
    encoded = Bytes()
    check(lib.compile(file_list, file_count, include_list, include_count, byref(encoded)))
    return descriptor_pb2.FileDescriptorSet.FromString(take_bytes(encoded))


def generate(
    files: Sequence[str], includes: Sequence[str], well_known: bool = False
) -> Dict[str, str]:
    """What is to be written for files and what they import, by path."""
    found = descriptors(files, includes)
    out: Dict[str, str] = {}
    for file in found.file:
        if file.name.startswith("google/protobuf/") and not well_known:
            continue  # They come with the package protobuf.
        base = file.name[: -len(".proto")] if file.name.endswith(".proto") else file.name
        out[base.replace("-", "_") + "_pb2.py"] = _types.messages(file)
        out[base.replace("-", "_") + "_pb2.pyi"] = _types.annotations(file, found.file)
        if file.service:
            out[base.replace("-", "_") + "_petasos.py"] = _stubs.services(file, found.file)
    return out


def _files(arguments: argparse.Namespace) -> Iterator[str]:
    """Files, as imports would name them, if they lie in an include directory."""
    for name in arguments.files:
        for include in arguments.proto_path:
            try:
                name = str(Path(name).resolve().relative_to(Path(include).resolve()))
                break
            except ValueError:
                continue
        yield name


def main(arguments: "List[str] | None" = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m petasos.compile", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument(
        "-I",
        "--proto-path",
        action="append",
        default=[],
        metavar="DIRECTORY",
        help="where files and imports are found; the files' own directories if not given",
    )
    parser.add_argument("--out", default=".", metavar="DIRECTORY", help="where to write")
    parsed = parser.parse_args(arguments)
    if not parsed.proto_path:
        parsed.proto_path = sorted({str(Path(file).parent) for file in parsed.files})
    try:
        made = generate(list(_files(parsed)), parsed.proto_path)
    except RpcError as error:
        print(error.details(), file=sys.stderr)
        return 1
    for path, text in made.items():
        target = Path(parsed.out, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
