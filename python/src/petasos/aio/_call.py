"""Calls, for callers.

A method of a stub, once called, gives a `ClientCall`: `await` it if it has one response, iterate
over it if it has many. It is under way whether or not somebody waits for it; giving it up, or
cancelling the task that awaits it, cancels it at the server, too.
"""

from __future__ import annotations

import asyncio
from ctypes import byref, c_void_p
from typing import TYPE_CHECKING, Any, AsyncIterable, AsyncIterator, Callable, Generator, Generic
from typing import Iterable, Optional, Tuple, TypeVar, Union

from .._library import END, Bytes, OwnedMetadata, check, lib, microseconds, take_bytes
from .._library import take_metadata
from .._routing import Routing, options as routing_options
from .._status import Metadata, RpcError, StatusCode
from ._reactor import Reactor

if TYPE_CHECKING:
    from ._channel import Client

Request = TypeVar("Request")
Response = TypeVar("Response")
Entries = Iterable[Tuple[str, Union[str, bytes]]]
Requests = Union[AsyncIterable[Request], Iterable[Request]]


class ClientCall(Generic[Request, Response]):
    """A call in progress."""

    def __init__(
        self,
        method: "_Method",
        request: bytes,
        requests: "Optional[Requests[Request]]",
        timeout: Optional[float],
        metadata: Optional[Entries],
        routing: Optional[Routing] = None,
    ) -> None:
        self._parse = method.parse
        self._reactor = Reactor.current()
        self._handle = c_void_p()
        self._client = method.client
        self._trailers: Metadata = ()
        self._sender: "Optional[asyncio.Task[None]]" = None
        with OwnedMetadata(metadata) as entries:
            check(
                lib.call_start_routed(
                    self._client.handle,
                    method.name.encode(),
                    request,
                    len(request),
                    microseconds(timeout),
                    entries,
                    routing_options(routing),
                    byref(self._handle),
                )
            )
        if requests is not None:
            self._sender = asyncio.ensure_future(self._send_all(requests))

    async def write(self, request: Request) -> None:
        """Sends a request, after waiting for room. For methods whose requests are a stream."""
        data = request.SerializeToString()  # type: ignore[attr-defined]
        check(lib.call_begin_send(self._handle, data, len(data)))
        await self._reactor.wait(lambda waker: lib.call_poll_sent(self._handle, waker))

    async def done_writing(self) -> None:
        """Closes the request stream: no more requests follow."""
        check(lib.call_close_send(self._handle))

    async def read(self) -> Optional[Response]:
        """The next response; None after the last. Raises RpcError if the call fails."""
        message = Bytes()
        try:
            code = await self._reactor.wait(
                lambda waker: lib.call_poll_receive(self._handle, waker, byref(message))
            )
        except RpcError as error:
            self._trailers = error.trailing_metadata()
            self._stop_sending()
            raise
        if code == END:
            self._stop_sending()
            handle = c_void_p()
            check(lib.call_trailers(self._handle, byref(handle)))
            self._trailers = take_metadata(handle)
            return None
        return self._parse(take_bytes(message))

    async def initial_metadata(self) -> Metadata:
        """Waits for the server's initial metadata. Not allowed while a response is awaited."""
        handle = c_void_p()
        await self._reactor.wait(
            lambda waker: lib.call_poll_metadata(self._handle, waker, byref(handle))
        )
        return take_metadata(handle)

    def trailing_metadata(self) -> Metadata:
        """The trailing metadata, once the call has ended."""
        return self._trailers

    def cancel(self) -> None:
        """Cancels the call: tasks that await it get an RpcError with the code CANCELLED."""
        self._stop_sending()
        check(lib.call_cancel(self._handle))

    async def _single(self) -> Response:
        """The only response."""
        try:
            response = await self.read()
            if response is None:
                raise RpcError(StatusCode.UNIMPLEMENTED, "there is no response")
            if await self.read() is not None:
                raise RpcError(StatusCode.UNIMPLEMENTED, "there is more than one response")
            return response
        except asyncio.CancelledError:
            self.cancel()
            raise

    async def _all(self) -> AsyncIterator[Response]:
        try:
            while (response := await self.read()) is not None:
                yield response
        except (asyncio.CancelledError, GeneratorExit):
            self.cancel()
            raise

    async def _send_all(self, requests: "Requests[Request]") -> None:
        try:
            if hasattr(requests, "__aiter__"):
                async for request in requests:  # type: ignore[union-attr]
                    await self.write(request)
            else:
                for request in requests:  # type: ignore[union-attr]
                    await self.write(request)
            await self.done_writing()
        except RpcError:
            # The call has ended; reading from it returns its status.
            pass
        except asyncio.CancelledError:
            raise
        except BaseException:
            # The iterator of requests has failed, and so the call fails.
            check(lib.call_cancel(self._handle))
            raise

    def _stop_sending(self) -> None:
        if self._sender is not None and not self._sender.done():
            self._sender.cancel()

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), c_void_p()
        if handle:
            lib.call_free(handle)


class SingleCall(ClientCall[Request, Response]):
    """A call with one response, which awaiting it returns."""

    def __await__(self) -> Generator[Any, None, Response]:
        return self._single().__await__()


class StreamCall(ClientCall[Request, Response]):
    """A call with many responses, over which it iterates."""

    def __aiter__(self) -> AsyncIterator[Response]:
        return self._all()


class _Method(Generic[Request, Response]):
    """A method of a client."""

    def __init__(self, client: "Client", name: str, parse: Callable[[bytes], Response]) -> None:
        self.client = client
        self.name = name
        self.parse = parse


class UnaryUnary(_Method[Request, Response]):
    """One request, one response: `response = await stub.Method(request)`.

    `routing` says which worker of a group gets the call, if the channel is to a group.
    """

    def __call__(
        self,
        request: Request,
        *,
        timeout: Optional[float] = None,
        metadata: Optional[Entries] = None,
        routing: Optional[Routing] = None,
    ) -> SingleCall[Request, Response]:
        data = request.SerializeToString()  # type: ignore[attr-defined]
        return SingleCall(self, data, None, timeout, metadata, routing)


class UnaryStream(_Method[Request, Response]):
    """One request, many responses: `async for response in stub.Method(request)`."""

    def __call__(
        self,
        request: Request,
        *,
        timeout: Optional[float] = None,
        metadata: Optional[Entries] = None,
    ) -> StreamCall[Request, Response]:
        data = request.SerializeToString()  # type: ignore[attr-defined]
        return StreamCall(self, data, None, timeout, metadata)


class StreamUnary(_Method[Request, Response]):
    """Many requests, one response: `response = await stub.Method(requests)`.

    Without requests: `call.write(request)`, `call.done_writing()`, `await call`.
    """

    def __call__(
        self,
        requests: "Optional[Requests[Request]]" = None,
        *,
        timeout: Optional[float] = None,
        metadata: Optional[Entries] = None,
    ) -> SingleCall[Request, Response]:
        return SingleCall(self, b"", requests, timeout, metadata)


class StreamStream(_Method[Request, Response]):
    """Many requests, many responses: `async for response in stub.Method(requests)`.

    Without requests: `call.write(request)`, `call.read()`, `call.done_writing()`.
    """

    def __call__(
        self,
        requests: "Optional[Requests[Request]]" = None,
        *,
        timeout: Optional[float] = None,
        metadata: Optional[Entries] = None,
    ) -> StreamCall[Request, Response]:
        return StreamCall(self, b"", requests, timeout, metadata)
