"""Channels."""

from __future__ import annotations

from ctypes import byref, c_void_p, sizeof
from typing import Callable, Optional

from .._library import ChannelOptions, check, lib, microseconds
from .._service import Service
from .._tls import Tls, options as tls_options
from ._call import StreamStream, StreamUnary, UnaryStream, UnaryUnary


class Channel:
    """A connection to servers: `petasos://HOST:PORT[,HOST:PORT…]`, `grpc://…` or `grpcs://…`.

    `router://HOST:PORT[,HOST:PORT…]` is a group of workers, by its routers. It connects when the first call needs it. Any number of event loops may use it.
    """

    def __init__(
        self,
        target: str,
        *,
        timeout: Optional[float] = None,
        connect_timeout: Optional[float] = None,
        wait_for_ready: bool = False,
        service_config: Optional[str] = None,
        tls: Optional[Tls] = None,
        plaintext: bool = False,
    ) -> None:
        """Times are in seconds; `timeout` is what each call may take, unless it asks for less.

        `service_config` is gRPC's, as JSON. `tls` is for `grpcs://`, and for `petasos://` and
        `router://` where the other end asks for it. Without it calls reach this host only, unless `plaintext`
        allows what anybody in the network can read and change.
        """
        options = ChannelOptions(
            sizeof(ChannelOptions),
            microseconds(timeout),
            microseconds(connect_timeout),
            wait_for_ready,
            None if service_config is None else service_config.encode(),
            tls_options(tls),
            plaintext,
        )
        self._handle = c_void_p()
        self.target = target
        check(lib.channel_open(target.encode(), byref(options), byref(self._handle)))

    def client(self, service: Service) -> "Client":
        """A client of a service over this channel, which stubs use."""
        return Client(self._handle, service)

    async def close(self) -> None:
        """Closes the channel for new clients; existing clients continue to work."""
        self._free()

    async def __aenter__(self) -> "Channel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _free(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), c_void_p()
        if handle:
            lib.channel_free(handle)

    def __del__(self) -> None:
        self._free()

    def __repr__(self) -> str:
        return f"Channel({self.target!r})"


class Client:
    """The methods of a service, by name."""

    def __init__(self, channel: c_void_p, service: Service) -> None:
        self._handle = c_void_p()
        check(lib.client_new(channel, service.handle, byref(self._handle)))

    @property
    def handle(self) -> c_void_p:
        """The library's object."""
        return self._handle

    def unary_unary(self, method: str, parse: Callable) -> UnaryUnary:
        """A method with one request and one response, which `parse` decodes."""
        return UnaryUnary(self, method, parse)

    def unary_stream(self, method: str, parse: Callable) -> UnaryStream:
        """A method with one request and many responses."""
        return UnaryStream(self, method, parse)

    def stream_unary(self, method: str, parse: Callable) -> StreamUnary:
        """A method with many requests and one response."""
        return StreamUnary(self, method, parse)

    def stream_stream(self, method: str, parse: Callable) -> StreamStream:
        """A method with many requests and many responses."""
        return StreamStream(self, method, parse)

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), c_void_p()
        if handle:
            lib.client_free(handle)
