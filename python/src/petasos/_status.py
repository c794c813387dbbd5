"""Status codes and errors of calls."""

from __future__ import annotations

import enum
from typing import Iterable, Tuple, Union

#: Keys with values, in order; values of keys that end in `-bin` are bytes.
Metadata = Tuple[Tuple[str, Union[str, bytes]], ...]


class StatusCode(enum.IntEnum):
    """gRPC's codes."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class RpcError(Exception):
    """A failed call, or another failure in the library.

    A handler that raises one ends its call so.
    """

    def __init__(
        self,
        code: StatusCode,
        message: str = "",
        *,
        details: bytes = b"",
        trailing_metadata: Iterable[Tuple[str, Union[str, bytes]]] = (),
    ) -> None:
        super().__init__(code, message)
        self._code = StatusCode(code)
        self._message = message
        self._details = details
        self._trailing_metadata = tuple(trailing_metadata)

    def code(self) -> StatusCode:
        """The code."""
        return self._code

    def details(self) -> str:
        """The message for people; may be empty."""
        return self._message

    def rich_details(self) -> bytes:
        """A serialized `google.rpc.Status`, or nothing."""
        return self._details

    def trailing_metadata(self) -> Metadata:
        """The trailing metadata."""
        return self._trailing_metadata

    def __str__(self) -> str:
        return f"{self._code.name}: {self._message}" if self._message else self._code.name
