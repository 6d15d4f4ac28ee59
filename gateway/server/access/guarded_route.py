"""HTTP routes, each with the right that it needs.

Owns: the check of that right, before all else. Must not know: what a route does. A route without a
right cannot be made, so no route forgets the check.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.auth.permissions import EVERYTHING, Permissions, Role
from gateway.errors import GatewayError
from gateway.protocol.messages import PRIVATE
from gateway.server.access.authenticator import Authenticator

ROOM: Final = "{room}"
"""The room that the path names."""

Endpoint = Callable[[Request, Permissions], Awaitable[ASGIApp]]
"""Answers a request of somebody with these permissions."""


async def _no_key(_: Request) -> str | None:
    return None


class Right(NamedTuple):
    """The right that a request needs.

    :param role: role that the caller must have at least; None: everybody may call
    :param room: room in which the role is needed: `ROOM`, `PRIVATE`, or None for any
    :param key: returns a key that the clients of another API send elsewhere than in a header
    :param by_endpoint: the endpoint checks the right itself, because it accepts more than a key
    """

    role: Role | None
    room: str | None = None
    key: Callable[[Request], Awaitable[str | None]] = _no_key
    by_endpoint: bool = False

    async def check(self, request: Request) -> Permissions:
        """Return the permissions of the caller.

        Raises `ClientFault`: ``unauthenticated``, ``forbidden``, ``busy``.
        """
        if self.role is None or self.by_endpoint:
            return EVERYTHING
        authenticator: Authenticator = request.app.state.authenticator
        caller = authenticator.caller(request.scope)
        # The holder of a ticket could ask for the next one with it, for ever.
        permissions = await caller.authorize(None, await self.key(request), ticket=False)
        permissions.check_role(self.role)
        room = request.path_params["room"] if self.room == ROOM else self.room
        if room is not None:
            permissions.check_room(room)
        return permissions


PUBLIC = Right(None)
"""No key is asked for."""
TRANSLATE = Right(Role.SPEAK, PRIVATE)
"""The right to translate in a room of one's own."""


POST: Final = ("POST",)
"""Methods of a route that is sent a body."""


class GuardedRoute(Route):
    """A route that calls its endpoint with the permissions of the caller.

    :param right: checked before the body of a request is read
    :param refused: returns the answer to a request that fails, for clients of another API
    """

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        right: Right,
        *,
        methods: Sequence[str] = ("GET",),
        refused: Callable[[GatewayError], Response] | None = None,
    ) -> None:
        async def guarded(request: Request) -> ASGIApp:
            try:
                return await endpoint(request, await right.check(request))
            except GatewayError as fault:
                if refused is None:
                    raise
                return refused(fault)

        super().__init__(path, guarded, methods=list(methods), name=endpoint.__name__)
        self.right = right
