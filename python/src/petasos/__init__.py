"""Petasos: remote procedure calls in microseconds.

`python -m petasos.compile` makes stubs and servicers of .proto files; `petasos.aio` has channels
and servers for asyncio.
"""

from ._routing import RoutePolicy, Routing
from ._service import Service
from ._status import Metadata, RpcError, StatusCode
from ._tls import Tls

__all__ = [
    "Metadata",
    "RoutePolicy",
    "Routing",
    "RpcError",
    "Service",
    "StatusCode",
    "Tls",
]
__version__ = "0.1.0"
