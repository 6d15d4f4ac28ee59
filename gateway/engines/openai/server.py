"""A server with OpenAI's API: its address, connections, refusals and names of sessions.

Owns: one HTTP client with its bounds, and the fault for each status. Must not know: jobs, the form
of requests and answers.

The server's messages are never read. They may quote the text, and texts of meetings are private.
"""

from __future__ import annotations

import re
from hashlib import blake2b

import httpx2

from gateway.errors import EngineFault, EngineGone, JobFault, Overloaded
from gateway.io import http

SESSION_HEADER = "X-Session-ID"
"""Header that vllm-router and others read. Its value must not change while a text grows."""

CONNECT_TIMEOUT = 3.0
"""Seconds to open a connection. A model server in the same network answers in milliseconds."""

KEEPALIVE_TIMEOUT = 3.0
"""Seconds for which an idle connection is kept. They are fewer than the 5 s of uvicorn, which runs
most servers, so that a request is never sent on a connection that the server is closing."""

REFUSAL_STATUSES = (400, 413, 422)
"""Statuses with which a server refuses one job, for example because it is too long."""


class ModelServer:
    """A server of models.

    :param url: address of the server, with or without ``/v1``. Proxies named in the environment are
        used
    :param api_key: sent as bearer token, and never logged
    :param key_setting: name of the setting of the key, for messages
    :param capacity: connections to keep open
    :param connections: most connections at once
    :param read_timeout: seconds between two pieces of a response

    Raises `EngineFault` if the url or the key is malformed.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        key_setting: str,
        capacity: int,
        connections: int,
        read_timeout: float,
    ) -> None:
        base, key = api_url(url), clean_key(api_key)
        self.address = f"{base.scheme}://{base.netloc.decode()}{base.path}"
        """Address for messages and logs, without the user name and password of the url."""
        self._has_key = bool(key)
        self._key_setting = key_setting
        self.client = http.client(
            base_url=base,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx2.Timeout(read_timeout, connect=CONNECT_TIMEOUT, pool=CONNECT_TIMEOUT),
            limits=httpx2.Limits(
                max_connections=connections,
                max_keepalive_connections=capacity,
                keepalive_expiry=KEEPALIVE_TIMEOUT,
            ),
        )

    async def list_models(self) -> httpx2.Response:
        """Return the answer to a request for the list of models, with any status. Raises
        `EngineGone` if there is no answer, `EngineFault` if the key is not accepted.
        """
        try:
            response = await self.client.get("models")
        except httpx2.HTTPError as error:
            raise EngineGone(
                f"No model server answers at {self.address} ({type(error).__name__}):"
                " start it, or correct the url."
            ) from error
        if response.status_code in (401, 403):
            raise self.fault(response.status_code)
        return response

    def fault(self, status: int) -> EngineFault:
        """Return the fault for the HTTP status of a refusal."""
        if status in (401, 403):
            wrong = "does not accept the API key" if self._has_key else "wants an API key"
            what = f"The model server at {self.address} {wrong} ({status})"
            return EngineFault(f"{what}: set {self._key_setting}.", status=status)
        hint = "The log of the model server may say why."
        if status in (429, 503):
            return Overloaded(f"The model server is full ({status}).", status)
        if status in (502, 504):
            message = f"There is no model behind {self.address} now ({status})."
            return EngineGone(message, hint=hint, status=status)
        kind = JobFault if status in REFUSAL_STATUSES else EngineFault
        return kind(f"The model server refused the job ({status}).", hint=hint, status=status)


def api_url(url: str) -> httpx2.URL:
    """Return the base URL of the API at ``url``. Raises `EngineFault` if it is malformed.

    >>> str(api_url("http://10.0.0.7:8000"))
    'http://10.0.0.7:8000/v1'
    """
    try:
        base = http.address(url.strip().rstrip("/"))
    except ValueError as error:
        raise EngineFault(f"The url of the model server is malformed: {error}.") from error
    # A version in the path means that the path is already that of the API.
    known = re.search(r"/v\d", base.path)
    return base if known else base.copy_with(path=f"{base.path.rstrip('/')}/v1")


def clean_key(api_key: str | None) -> str:
    """Return ``api_key`` without surrounding white space, such as the line end of a file. Raises
    `EngineFault`, which does not quote the key, if it has characters that no key has.
    """
    key = (api_key or "").strip()
    # The HTTP library would refuse such a key too, but with a message that quotes it.
    if not (key.isascii() and key.isprintable()):
        raise EngineFault("The API key has characters that no key has: check where it comes from.")
    return key


def session_id(room: str, target: str) -> str:
    """Return the name of the session for the jobs of one room and target language."""
    # Names of rooms may tell about customers, and routers log the name of every session. So the
    # room is hashed, in the same way in every gateway, because a room may move from one to another.
    return f"{blake2b(room.encode(), digest_size=8).hexdigest()}.{target}"
