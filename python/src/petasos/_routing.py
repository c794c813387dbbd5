"""How calls to groups of workers are routed."""

from __future__ import annotations

from ctypes import byref, sizeof
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Optional

from ._library import RoutingOptions


class RoutePolicy(IntEnum):
    """Which worker of a group gets a call."""

    #: Any, by the policy of the group.
    ANY = 0
    #: The worker that has joined as primary.
    PRIMARY = 1
    #: The same worker as other calls with the same key, while its load allows.
    KEY = 2


@dataclass(frozen=True)
class Routing:
    """How a call to `router://…` is routed. The default is right for any call.

    `key` is for `RoutePolicy.KEY`. What waits in the router goes by `priority`, 0 to 15, the
    greatest first. A call that `is_idempotent` may run more than once, whatever the schema of its
    method says: it goes to a worker at once, and is sent again if its worker fails.
    """

    policy: RoutePolicy = RoutePolicy.ANY
    key: bytes = b""
    priority: int = 0
    is_idempotent: bool = False

    @classmethod
    def to_primary(cls) -> "Routing":
        """To the worker that has joined as primary."""
        return cls(RoutePolicy.PRIMARY)

    @classmethod
    def by_key(cls, key: bytes) -> "Routing":
        """To the same worker as other calls with this key, while its load allows."""
        return cls(RoutePolicy.KEY, key)


def options(routing: Optional[Routing]) -> Any:
    """A pointer to the library's structure, which lives as long as the pointer; none for none."""
    if routing is None:
        return None
    if not 0 <= routing.priority <= 255:
        raise ValueError(f"{routing.priority} is no priority")
    return byref(
        RoutingOptions(
            sizeof(RoutingOptions),
            routing.policy,
            routing.priority,
            routing.is_idempotent,
            routing.key,
            len(routing.key),
        )
    )
