"""Servers."""

from __future__ import annotations

import asyncio
import logging
import time
from ctypes import POINTER, byref, c_void_p, pointer, sizeof
from typing import Any, AsyncIterator, Callable, Dict, List, NoReturn, Optional, Set, Tuple, Union

from .._library import END, OK, PENDING, Bytes, JoinOptions, OwnedMetadata, ServerOptions, Waker
from .._library import check, last_error, lib, take_bytes, take_metadata, text
from .._service import Service
from .._status import Metadata, RpcError, StatusCode
from .._tls import Tls, options as tls_options
from ._call import Entries
from ._reactor import Reactor

_log = logging.getLogger("petasos")

#: Kind, parser of requests, and the coroutine or async generator, by the method's name.
Handlers = Dict[str, Tuple[str, Callable[[bytes], Any], Callable[..., Any]]]


class Server:
    """Serves services in the event loop that starts it."""

    def __init__(
        self,
        *,
        loops: int = 1,
        calls_max: int = 0,
        tls: Optional[Tls] = None,
        plaintext: bool = False,
    ) -> None:
        """`loops` threads move packets; `calls_max` calls may wait for Python, 0 for 4096.

        `tls` is for both ports. Without it both are on loopback only, unless `plaintext`
        allows what anybody in the network can read and change.
        """
        self._loops, self._calls_max = loops, calls_max
        self._tls, self._plaintext = tls, plaintext
        self._services: List[Service] = []
        self._handlers: Dict[str, Handlers] = {}
        self._listen: Optional[str] = None
        self._grpc_listen: Optional[str] = None
        self._joins: List[JoinOptions] = []
        self._handle = c_void_p()
        self._running: Set["asyncio.Task[None]"] = set()
        self._accepting: "Optional[asyncio.Task[None]]" = None

    def add_service(self, service: Service, handlers: Handlers) -> None:
        """Serves a service; `add_…Servicer_to_server` of generated code calls this."""
        self._services.append(service)
        self._handlers[service.name] = handlers

    def listen(self, address: str) -> None:
        """Listens at `HOST:PORT`; port 0 lets the system choose one."""
        self._listen = address

    def listen_grpc(self, address: str) -> None:
        """Answers gRPC clients at `HOST:PORT`, too."""
        self._grpc_listen = address

    def join(
        self, target: str, *, bound: int = 16, weight: int = 100, primary: bool = False
    ) -> None:
        """Joins a group of workers, `router://HOST:PORT[,HOST:PORT…]`: its routers give it calls.

        They dial the server, so it listens as well. Each of its loops takes up to `bound` calls at
        a time from each router, 1 to 4095. `weight` is its part of the calls, in percent of what a
        worker of full weight gets, 1 to 100. The `primary` is for calls that are routed to that
        one.
        """
        if not (1 <= bound <= 4095 and 1 <= weight <= 100):
            raise ValueError(f"bound {bound}, weight {weight}: too small, or too great")
        options = JoinOptions(sizeof(JoinOptions), target.encode(), bound, weight, primary)
        self._joins.append(options)

    def joined(self) -> "List[Union[bool, RpcError]]":
        """The state at each router of the groups, in the order of their addresses.

        True if it gives calls to the server, False if it has not answered yet, or the reason why it
        does not. The server keeps asking.
        """
        states: "List[Union[bool, RpcError]]" = []
        while (code := lib.server_joined(self._handle, len(states))) != END:
            states.append(last_error(code) if code > 0 else code == OK)
        return states

    async def start(self) -> None:
        """Starts the server: when this returns, calls are taken."""
        joins = (POINTER(JoinOptions) * len(self._joins))(*map(pointer, self._joins))
        options = ServerOptions(
            sizeof(ServerOptions),
            None if self._listen is None else self._listen.encode(),
            None if self._grpc_listen is None else self._grpc_listen.encode(),
            self._loops,
            self._calls_max,
            tls_options(self._tls),
            self._plaintext,
            joins,
            len(self._joins),
        )
        services = (c_void_p * len(self._services))(*[it.handle.value for it in self._services])
        check(
            lib.server_start(services, len(self._services), byref(options), byref(self._handle))
        )
        self._accepting = asyncio.ensure_future(self._accept(Reactor.current()))

    @property
    def port(self) -> int:
        """The port at which Petasos listens, or 0."""
        return lib.server_port(self._handle)

    @property
    def grpc_port(self) -> int:
        """The port at which gRPC is answered, or 0."""
        return lib.server_grpc_port(self._handle)

    async def stop(self, grace: Optional[float] = None) -> None:
        """Takes no more calls, gives those that run `grace` seconds, and cancels the rest."""
        grace_us = int((grace or 0) * 1e6)
        loop = asyncio.get_running_loop()
        check(await loop.run_in_executor(None, lib.server_drain, self._handle, grace_us))
        await self.wait_for_termination()

    async def wait_for_termination(self) -> None:
        """Waits until the server has ended, and all its handlers."""
        if self._accepting is not None:
            await asyncio.shield(self._accepting)
        while self._running:
            await asyncio.wait(self._running)

    async def __aenter__(self) -> "Server":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _accept(self, reactor: Reactor) -> None:
        while True:
            handle = c_void_p()
            code = await reactor.wait(
                lambda waker: lib.server_poll_accept(self._handle, waker, byref(handle))
            )
            if code == END:
                return
            call = _Call(reactor, handle)
            handler = self._handlers[text(lib.call_service(handle))]
            task = asyncio.ensure_future(call.run(*handler[text(lib.call_method(handle))]))
            call.watch(task)
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), c_void_p()
        if handle:
            lib.server_free(handle)


class ServerContext:
    """What a handler knows of its call, beside the messages."""

    def __init__(self, call: "_Call") -> None:
        self._call = call
        timeout_us = lib.call_timeout_us(call.handle)
        self._deadline = time.monotonic() + timeout_us / 1e6 if timeout_us else None
        self._trailers: Metadata = ()

    def invocation_metadata(self) -> Metadata:
        """The caller's metadata."""
        return self._call.metadata

    def time_remaining(self) -> Optional[float]:
        """Seconds until nobody waits for the answer; none if there is no limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    async def send_initial_metadata(self, metadata: Entries) -> None:
        """Sends metadata, before any response."""
        with OwnedMetadata(metadata) as entries:
            check(lib.call_send_metadata(self._call.handle, entries))

    def set_trailing_metadata(self, metadata: Entries) -> None:
        """Has the call end with metadata, however it ends."""
        self._trailers = tuple(metadata)

    async def abort(
        self, code: StatusCode, details: str = "", trailing_metadata: Entries = ()
    ) -> NoReturn:
        """Ends the call with a status other than OK."""
        raise RpcError(code, details, trailing_metadata=trailing_metadata)


class _Call:
    """A call that is being handled."""

    def __init__(self, reactor: Reactor, handle: c_void_p) -> None:
        self._reactor = reactor
        self.handle = handle
        self._waker: Optional[Waker] = None
        self._task: "Optional[asyncio.Task[None]]" = None
        self.metadata: Metadata = ()

    def watch(self, task: "asyncio.Task[None]") -> None:
        """Cancels the task once nobody waits for its answer."""
        self._task = task
        self._look()

    def _look(self) -> None:
        if self._task is None or self._task.done():
            return
        self._waker = self._reactor.waker(self._look)
        code = lib.call_poll_cancelled(self.handle, self._waker)
        if code != PENDING:
            self._reactor.forget(self._waker)
            if code == OK:
                self._task.cancel()

    async def _read(self) -> Optional[bytes]:
        message = Bytes()
        code = await self._reactor.wait(
            lambda waker: lib.call_poll_receive(self.handle, waker, byref(message))
        )
        return None if code == END else take_bytes(message)

    async def _requests(self, parse: Callable[[bytes], Any]) -> AsyncIterator[Any]:
        while (data := await self._read()) is not None:
            yield parse(data)

    async def _request(self, parse: Callable[[bytes], Any]) -> Any:
        data = await self._read()
        if data is None:
            raise RpcError(StatusCode.UNIMPLEMENTED, "there is no request")
        if await self._read() is not None:
            raise RpcError(StatusCode.UNIMPLEMENTED, "there is more than one request")
        return parse(data)

    async def _write(self, response: Any) -> None:
        data = response.SerializeToString()
        check(lib.call_begin_send(self.handle, data, len(data)))
        await self._reactor.wait(lambda waker: lib.call_poll_sent(self.handle, waker))

    def _finish(self, code: int, message: str, details: bytes, trailers: Metadata) -> None:
        data = message.encode()
        with OwnedMetadata(trailers) as entries:
            # A call that nobody waits for any more says so, which is of no use here.
            lib.call_finish(
                self.handle, code, data, len(data), details, len(details), entries
            )

    async def run(
        self, kind: str, parse: Callable[[bytes], Any], handler: Callable[..., Any]
    ) -> None:
        """Runs the handler and ends the call."""
        context = ServerContext(self)
        try:
            metadata = c_void_p()
            await self._reactor.wait(
                lambda waker: lib.call_poll_metadata(self.handle, waker, byref(metadata))
            )
            self.metadata = take_metadata(metadata)
            await self._answer(kind, parse, handler, context)
            self._finish(StatusCode.OK, "", b"", context._trailers)
        except RpcError as error:
            trailers = error.trailing_metadata() or context._trailers
            self._finish(error.code(), error.details(), error.rich_details(), trailers)
        except asyncio.CancelledError:
            lib.call_cancel(self.handle)
        except Exception as error:
            _log.exception("a handler has failed")
            self._finish(StatusCode.UNKNOWN, f"the handler has failed: {error!r}", b"", ())
        finally:
            self._free()

    async def _answer(
        self,
        kind: str,
        parse: Callable[[bytes], Any],
        handler: Callable[..., Any],
        context: ServerContext,
    ) -> None:
        requests, responses = kind.split("_")
        asked = self._requests(parse) if requests == "stream" else await self._request(parse)
        if responses == "unary":
            await self._write(await handler(asked, context))
            return
        async for response in handler(asked, context):
            await self._write(response)

    def _free(self) -> None:
        if self._waker is not None:
            self._reactor.forget(self._waker)
        handle, self.handle = self.handle, c_void_p()
        if handle:
            lib.call_free(handle)

    def __del__(self) -> None:
        self._free()
