"""TLS: how servers and channels authenticate themselves and their peers."""

from __future__ import annotations

import os
from ctypes import POINTER, pointer, sizeof
from dataclasses import dataclass
from typing import Optional, Union

from ._library import TlsOptions

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Tls:
    """Files in PEM, which are read again when they change.

    Petasos' own protocol needs all three at both ends. Over gRPC a channel needs `authorities`,
    and `certificate` with its `key` if the server asks for one; a server needs `certificate` and
    `key`, and asks for clients' certificates if it has `authorities`.

    `peer_name` is what peers must have in their certificates. Without it a server takes any client
    that the authorities vouch for, and a channel the host that it calls.
    """

    authorities: Optional[Path] = None
    certificate: Optional[Path] = None
    key: Optional[Path] = None
    peer_name: Optional[str] = None


def options(tls: Optional[Tls]) -> "Optional[POINTER(TlsOptions)]":
    """The library's structure; it keeps the texts alive as long as it exists."""
    if tls is None:
        return None
    files = (tls.authorities, tls.certificate, tls.key)
    texts = [None if file is None else os.fsencode(file) for file in files]
    name = None if tls.peer_name is None else tls.peer_name.encode()
    return pointer(TlsOptions(sizeof(TlsOptions), *texts, name))
