"""Sessions of a router: the jobs of one room and language go to one replica of the model.

Owns: the name of a session, and ending the sessions of a room that has ended. Must not know: jobs,
what the text is, how a router chooses a replica.

vllm-router with the policy ``sticky_least_loaded`` gives a new session to the replica with the
fewest sessions, and keeps it there until the session is ended or two hours old. Servers that know
no sessions ignore the header. See ``docs/design/openai.md``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from hashlib import blake2b

import httpx2

logger = logging.getLogger(__name__)

SESSION_HEADER = "X-Session-ID"
"""Header that vllm-router and others read. Its value must not change while a text grows."""

END_PATH = "/finish_session"
"""Path beside ``/v1`` at which vllm-router ends a session."""

ENDING_LIMIT = 10_000
"""Most sessions that wait to be ended. Beyond it the oldest are left to the router, which forgets
them after two hours without a job."""


def session_id(room: str, target: str) -> str:
    """Return the name of the session for the jobs of one room and target language."""
    # Names of rooms may tell about customers, and routers log the name of every session. So the
    # room is hashed, in the same way in every gateway, because a room may move from one to another.
    return f"{blake2b(room.encode(), digest_size=8).hexdigest()}.{target}"


class RouterSessions:
    """The sessions of one server.

    :param client: makes the requests. Its base URL ends in the version of the API, such as ``/v1``
    """

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client
        self._open: dict[str, set[str]] = {}  # targets by room; rooms are bounded by the hub
        self._ending: deque[str] = deque(maxlen=ENDING_LIMIT)
        self._task: asyncio.Task[None] | None = None  # ends sessions while there are any to end
        self._understood = True  # False once the server has answered that it ends no sessions

    def headers(self, room: str, target: str) -> dict[str, str]:
        """Return the headers for a job of ``room``; none if it belongs to no room."""
        if not room:
            return {}
        if self._understood:
            self._open.setdefault(room, set()).add(target)
        return {SESSION_HEADER: session_id(room, target)}

    def end(self, room: str) -> None:
        """End the sessions of a room, without waiting for the server's answers."""
        targets = self._open.pop(room, ())
        if not self._understood:
            return
        self._ending.extend(session_id(room, target) for target in targets)
        # One request after another, so that jobs never wait for a connection.
        if self._ending and self._task is None:
            self._task = asyncio.create_task(self._end_all(), name="end sessions")

    async def aclose(self) -> None:
        """Stop ending sessions. The router forgets the others by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _end_all(self) -> None:
        """End the sessions that wait, until none is left or the server does not answer."""
        url = self._client.base_url
        url = url.copy_with(path=url.path.rstrip("/").rpartition("/")[0] + END_PATH)
        try:
            while self._ending:
                params = {"session_id": self._ending.popleft()}
                response = await self._client.post(url, params=params)
                if response.status_code in (404, 405, 501):
                    logger.debug("the server ends no sessions (%d)", response.status_code)
                    self._understood = False
                    self._open.clear()
                    self._ending.clear()
        except httpx2.HTTPError as error:
            # A router that is gone has lost its sessions, and another one forgets them in time.
            logger.debug("sessions could not be ended (%s)", type(error).__name__)
            self._ending.clear()
        finally:
            self._task = None
