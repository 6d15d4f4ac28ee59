"""The body of an HTTP request: JSON, a form, or the parameters of the query.

Owns: its bounds, and its conversion to a struct. Must not know: what the fields mean.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import ClassVar, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from gateway.errors import ClientFault, ErrorCode
from gateway.server.runtime.hub import Hub

BODY_S = 10.0
"""Seconds for the whole body of a request, which has a few kilobytes."""
FIELDS = 100
"""Most fields of a form: fifty texts, and what is asked for. Python takes 3 us to read each."""
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
"""Media types of forms."""


class BodyShape(Protocol):
    """A struct that a body is converted to."""

    EXAMPLE: ClassVar[str]  # a body in JSON, for the hint of a request with another body


Body = TypeVar("Body", bound=BodyShape)


async def read(request: Request, shape: type[Body]) -> Body:
    """Return the body of a request, decoded from JSON, a form or the query.

    A field that is repeated in a form or in the query is a list. Raises `ClientFault`:
    ``bad_frame``, ``too_long``, ``timeout``.

    :param shape: the type of the body
    """
    data = await _bytes(request)
    is_form = request.headers.get("content-type", "").startswith((URLENCODED, MULTIPART))
    try:
        # curl -d declares a form whatever it sends. A body that begins with a brace is JSON.
        if (is_form or not data) and not data.lstrip().startswith(b"{"):
            fields = [*request.query_params.multi_items(), *await _fields(request, data)]
            return msgspec.convert(_values(fields), shape, strict=False)
        return msgspec.json.decode(data, type=shape)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as exc:
        raise ClientFault(
            ErrorCode.BAD_FRAME,
            f"The body could not be read: {str(exc)[:200]}.",
            f"Send JSON, such as {shape.EXAMPLE}.",
        ) from exc


async def _bytes(request: Request) -> bytes:
    hub: Hub = request.app.state.hub
    limit = hub.limits.frame
    data = bytearray()
    declared = request.headers.get("content-length", "0")
    try:
        # uvicorn has checked that these are digits; other servers may not have.
        if declared.isdecimal() and int(declared[:19]) > limit:
            raise _too_large(limit)
        async with asyncio.timeout(BODY_S), aclosing(request.stream()) as chunks:
            async for chunk in chunks:
                data += chunk
                if len(data) > limit:  # a chunked body has no header with its length
                    raise _too_large(limit)
    except TimeoutError:
        raise ClientFault(
            ErrorCode.TIMEOUT, f"The body did not come within {BODY_S:g} s."
        ) from None
    except ClientDisconnect:
        raise ClientFault(ErrorCode.NOT_FOUND, "The caller hung up.") from None
    return bytes(data)


def _too_large(limit: int) -> ClientFault:
    return ClientFault(ErrorCode.TOO_LONG, f"The body is larger than {limit} bytes.")


def _values(fields: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Return fields by name; a field that is repeated becomes a list."""
    values: dict[str, list[str]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name: value[0] if len(value) == 1 else value for name, value in values.items()}


async def _fields(request: Request, data: bytes) -> list[tuple[str, str]]:
    """Return the fields of a form, which may have no files. Raises `ValueError`."""
    media_type = request.headers.get("content-type", "")
    if not media_type.startswith(MULTIPART):
        return parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS)
    # RFC 7578 has no such parameter, but Starlette decodes with any codec of Python that it names,
    # and some of them take long or make lone surrogates.
    if b"charset" in parse_options_header(media_type)[1]:
        raise ValueError("a multipart form is UTF-8 and names no charset")

    async def chunks() -> AsyncGenerator[bytes]:
        yield data

    try:
        form = await MultiPartParser(
            request.headers, chunks(), max_files=0, max_fields=FIELDS
        ).parse()
    except MultiPartException as exc:
        raise ValueError(exc.message) from exc
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
