"""Services, made from their descriptors."""

from __future__ import annotations

from ctypes import byref, c_void_p
from typing import Dict

from ._library import check, lib


def _set_of(file) -> bytes:
    """A `FileDescriptorSet` with a file and all that it imports, which come before it."""
    files: Dict[str, bytes] = {}

    def add(one) -> None:
        if one.name not in files:
            for dependency in one.dependencies:
                add(dependency)
            files[one.name] = one.serialized_pb

    add(file)
    return b"".join(b"\x0a" + _varint(len(data)) + data for data in files.values())


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


class Service:
    """A service of a .proto file, for generated code."""

    def __init__(self, file, name: str) -> None:
        """`file` is the `DESCRIPTOR` of the file's module, `name` is `package.Service`."""
        self.name = name
        self._handle = c_void_p()
        descriptors = _set_of(file)
        check(
            lib.service_described(
                descriptors, len(descriptors), name.encode(), byref(self._handle)
            )
        )

    @property
    def handle(self) -> c_void_p:
        """The library's object."""
        return self._handle

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), c_void_p()
        if handle:
            lib.service_free(handle)

    def __repr__(self) -> str:
        return f"Service({self.name!r})"
