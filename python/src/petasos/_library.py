"""The C interface, as `crates/capi/include/petasos.h` has it.

Nothing here knows of asyncio or of messages. Handles are integers; who gets one frees it.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int32, c_int64
from ctypes import c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Iterable, Optional, Tuple, Union

from ._status import Metadata, RpcError, StatusCode

ABI_VERSION = 3

OK = 0
PENDING = -1
END = -2
TIMED_OUT = -3


class Slice(Structure):
    """Borrowed bytes."""

    _fields_ = [("data", c_void_p), ("length", c_size_t)]


class Bytes(Structure):
    """Owned bytes, which must be freed."""

    _fields_ = [("data", c_void_p), ("length", c_size_t)]


class Waker(Structure):
    """A callback that is called when polling again makes sense."""

    _fields_ = [("wake", c_void_p), ("context", c_void_p), ("tag", c_uint64)]


class Method(Structure):
    """A method of a service, identified by its name."""

    _fields_ = [("name", c_char_p), ("kind", c_uint32)]


class TlsOptions(Structure):
    """Files in PEM, and the peer's name."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("authorities_file", c_char_p),
        ("certificate_file", c_char_p),
        ("key_file", c_char_p),
        ("peer_name", c_char_p),
    ]


class ChannelOptions(Structure):
    """The options of a channel."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("timeout_us", c_uint64),
        ("connect_timeout_us", c_uint64),
        ("wait_for_ready", c_bool),
        ("service_config", c_char_p),
        ("tls", POINTER(TlsOptions)),
        ("plaintext", c_bool),
    ]


class RoutingOptions(Structure):
    """How a call to a group is routed."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("policy", c_uint32),
        ("priority", c_uint8),
        ("is_idempotent", c_bool),
        ("key", c_char_p),
        ("key_length", c_size_t),
    ]


class JoinOptions(Structure):
    """How a server joins a group."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("target", c_char_p),
        ("bound", c_uint16),
        ("weight", c_uint16),
        ("is_primary", c_bool),
    ]


class ServerOptions(Structure):
    """The options of a server."""

    _fields_ = [
        ("struct_bytes", c_size_t),
        ("listen", c_char_p),
        ("grpc_listen", c_char_p),
        ("loops", c_size_t),
        ("calls_max", c_size_t),
        ("tls", POINTER(TlsOptions)),
        ("plaintext", c_bool),
        ("joins", POINTER(POINTER(JoinOptions))),
        ("join_count", c_size_t),
    ]


_TEXTS = POINTER(c_char_p)
_HANDLE = POINTER(c_void_p)

# Name: (result, arguments), in the order of the header.
_FUNCTIONS = {
    "abi_version": (c_uint32, []),
    "last_error": (c_void_p, []),
    "status_message": (Slice, [c_void_p]),
    "status_details": (Slice, [c_void_p]),
    "status_metadata": (c_void_p, [c_void_p]),
    "bytes_free": (None, [POINTER(Bytes)]),
    "metadata_new": (c_void_p, []),
    "metadata_append": (c_int32, [c_void_p, c_char_p, c_char_p, c_size_t]),
    "metadata_count": (c_size_t, [c_void_p]),
    "metadata_get": (c_bool, [c_void_p, c_size_t, POINTER(Slice), POINTER(Slice)]),
    "metadata_free": (None, [c_void_p]),
    "queue_new": (c_int32, [_HANDLE]),
    "queue_push": (None, [c_void_p, c_uint64]),
    "queue_descriptor": (c_int, [c_void_p]),
    "queue_take": (c_size_t, [c_void_p, POINTER(c_uint64), c_size_t, c_int64]),
    "queue_free": (None, [c_void_p]),
    "service_described": (c_int32, [c_char_p, c_size_t, c_char_p, _HANDLE]),
    "service_free": (None, [c_void_p]),
    "compile": (c_int32, [_TEXTS, c_size_t, _TEXTS, c_size_t, POINTER(Bytes)]),
    "channel_open": (c_int32, [c_char_p, POINTER(ChannelOptions), _HANDLE]),
    "channel_free": (None, [c_void_p]),
    "client_new": (c_int32, [c_void_p, c_void_p, _HANDLE]),
    "client_free": (None, [c_void_p]),
    "call_start_routed": (
        c_int32,
        [
            c_void_p,
            c_char_p,
            c_char_p,
            c_size_t,
            c_uint64,
            c_void_p,
            POINTER(RoutingOptions),
            _HANDLE,
        ],
    ),
    "call_begin_send": (c_int32, [c_void_p, c_char_p, c_size_t]),
    "call_poll_sent": (c_int32, [c_void_p, Waker]),
    "call_close_send": (c_int32, [c_void_p]),
    "call_poll_receive": (c_int32, [c_void_p, Waker, POINTER(Bytes)]),
    "call_poll_metadata": (c_int32, [c_void_p, Waker, _HANDLE]),
    "call_trailers": (c_int32, [c_void_p, _HANDLE]),
    "call_cancel": (c_int32, [c_void_p]),
    "call_free": (None, [c_void_p]),
    "call_service": (Slice, [c_void_p]),
    "call_method": (Slice, [c_void_p]),
    "call_timeout_us": (c_uint64, [c_void_p]),
    "call_send_metadata": (c_int32, [c_void_p, c_void_p]),
    "call_finish": (
        c_int32,
        [c_void_p, c_int32, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p],
    ),
    "call_poll_cancelled": (c_int32, [c_void_p, Waker]),
    "server_start": (c_int32, [_HANDLE, c_size_t, POINTER(ServerOptions), _HANDLE]),
    "server_joined": (c_int32, [c_void_p, c_size_t]),
    "server_port": (c_uint16, [c_void_p]),
    "server_grpc_port": (c_uint16, [c_void_p]),
    "server_poll_accept": (c_int32, [c_void_p, Waker, _HANDLE]),
    "server_drain": (c_int32, [c_void_p, c_uint64]),
    "server_free": (None, [c_void_p]),
}


class _Library:
    """The library's functions, without the prefix `petasos_`."""

    def __init__(self) -> None:
        beside = Path(__file__).with_name("libpetasos.so")
        path = os.environ.get("PETASOS_LIBRARY") or str(beside)
        self._dll = ctypes.CDLL(path)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._dll, "petasos_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        if self.abi_version() < ABI_VERSION:
            raise ImportError(f"{path} is too old: version {self.abi_version()} of its interface")
        # The function that wakers call is the library's own, so its threads never run Python.
        self.push = ctypes.cast(self._dll.petasos_queue_push, c_void_p).value

    def __getattr__(self, name: str):
        raise AttributeError(name)


lib = _Library()


def check(code: int) -> int:
    """Returns `code` unless it is a failure.

    Otherwise raises RpcError with the details of the failure.
    """
    if code > 0:
        raise last_error(code)
    return code


def last_error(code: int) -> RpcError:
    """The error for this code, which a function has just returned on this thread."""
    status = lib.last_error()
    return RpcError(
        StatusCode(code),
        _copy(lib.status_message(status)).decode("utf-8", "replace"),
        details=_copy(lib.status_details(status)),
        trailing_metadata=read_metadata(lib.status_metadata(status)),
    )


def _copy(part: Union[Slice, Bytes]) -> bytes:
    return ctypes.string_at(part.data, part.length) if part.length else b""


def take_bytes(part: Bytes) -> bytes:
    """Copies bytes and frees them."""
    try:
        return _copy(part)
    finally:
        lib.bytes_free(byref(part))


def text(part: Slice) -> str:
    """Converts borrowed bytes to a string."""
    return _copy(part).decode()


def read_metadata(handle: Optional[int]) -> Metadata:
    """Copies metadata."""
    entries = []
    key, value = Slice(), Slice()
    for index in range(lib.metadata_count(handle)):
        if lib.metadata_get(handle, index, byref(key), byref(value)):
            name, data = text(key), _copy(value)
            entries.append((name, data if name.endswith("-bin") else data.decode("ascii")))
    return tuple(entries)


def take_metadata(handle: c_void_p) -> Metadata:
    """Copies metadata and frees them."""
    try:
        return read_metadata(handle.value)
    finally:
        lib.metadata_free(handle)


class OwnedMetadata:
    """Metadata for the library, for the length of a `with`."""

    def __init__(self, entries: Optional[Iterable[Tuple[str, Union[str, bytes]]]]) -> None:
        self._entries = tuple(entries or ())

    def __enter__(self) -> Optional[int]:
        self._handle = lib.metadata_new() if self._entries else None
        try:
            for key, value in self._entries:
                data = value.encode("ascii") if isinstance(value, str) else bytes(value)
                check(lib.metadata_append(self._handle, key.encode(), data, len(data)))
        except BaseException:
            lib.metadata_free(self._handle)
            raise
        return self._handle

    def __exit__(self, *_: object) -> None:
        lib.metadata_free(self._handle)


def microseconds(seconds: Optional[float]) -> int:
    """Converts a time for the library, where 0 means none: so the minimum is 1."""
    return 0 if seconds is None else max(1, int(seconds * 1e6))


def texts(items: Iterable[Union[str, os.PathLike]]):
    """An array of texts, and its length."""
    encoded = [os.fsencode(item) for item in items]
    return (c_char_p * len(encoded))(*encoded), len(encoded)
