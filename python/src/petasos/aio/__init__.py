"""Channels and servers for asyncio."""

from ._call import ClientCall, StreamStream, StreamUnary, UnaryStream, UnaryUnary
from ._channel import Channel
from ._server import Server, ServerContext

__all__ = [
    "Channel",
    "ClientCall",
    "Server",
    "ServerContext",
    "StreamStream",
    "StreamUnary",
    "UnaryStream",
    "UnaryUnary",
]
