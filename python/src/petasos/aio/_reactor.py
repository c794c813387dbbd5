"""Connects the library's wakers to an event loop.

Wakers add their tags to a queue of the library, whose descriptor the loop watches: no thread of the
library ever runs Python. Tags are used once; those that nobody waits for any more are ignored.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from ctypes import byref, c_uint64, c_void_p
from functools import partial
from typing import Callable, Dict

from .._library import PENDING, Waker, check, lib

_TAGS_MAX = 64
#: This many waits in a row may end at once before other tasks of the loop run.
_UNFAIR_MAX = 16


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Reactor:
    """Lets the calls and servers of one event loop wait."""

    _of_loops: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Reactor]"
    _of_loops = weakref.WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._waiting: Dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count(1)
        self._unfair = 0
        self._tags = (c_uint64 * _TAGS_MAX)()
        self._queue = c_void_p()
        check(lib.queue_new(byref(self._queue)))
        # A weak reference, because the loop must not keep the reactor alive.
        this = weakref.ref(self)

        def readable() -> None:
            reactor = this()
            if reactor is not None:
                reactor._take()

        loop.add_reader(lib.queue_descriptor(self._queue), readable)

    @classmethod
    def current(cls) -> "Reactor":
        """The reactor of the running loop."""
        loop = asyncio.get_running_loop()
        reactor = cls._of_loops.get(loop)
        if reactor is None:
            reactor = cls._of_loops[loop] = cls(loop)
        return reactor

    def _take(self) -> None:
        count = _TAGS_MAX
        while count == _TAGS_MAX:
            count = lib.queue_take(self._queue, self._tags, _TAGS_MAX, 0)
            for tag in self._tags[:count]:
                wake = self._waiting.pop(tag, None)
                if wake is not None:
                    wake()

    def waker(self, wake: Callable[[], None]) -> Waker:
        """A waker that calls `wake` in the loop, once."""
        tag = next(self._numbers)
        self._waiting[tag] = wake
        return Waker(lib.push, self._queue.value, tag)

    def forget(self, waker: Waker) -> None:
        """Cancels a waker's callback."""
        self._waiting.pop(waker.tag, None)

    async def wait(self, poll: Callable[[Waker], int]) -> int:
        """Polls until there is a result: a code that is not a failure.

        Raises RpcError with what is known of a failure.
        """
        loop = asyncio.get_running_loop()
        self._unfair += 1
        if self._unfair >= _UNFAIR_MAX:
            self._unfair = 0
            # Before polling: if the task were cancelled here afterwards, the result would be lost.
            await asyncio.sleep(0)
        while True:
            future = loop.create_future()
            waker = self.waker(partial(_settle, future))
            try:
                code = check(poll(waker))
                if code != PENDING:
                    return code
                await future
            finally:
                self.forget(waker)

    def __del__(self) -> None:
        # Calls have a reference to their reactor, so no waker is left.
        queue, self._queue = getattr(self, "_queue", None), c_void_p()
        if queue:
            lib.queue_free(queue)
