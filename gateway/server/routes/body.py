"""The body of an HTTP request: JSON, a form, or the parameters of the query.

Owns: its bounds, and its conversion to a struct. Must not know: what the fields mean.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import ClassVar, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from gateway.errors import ClientFault, ErrorCode, bad_frame
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
T = TypeVar("T")


async def read(request: Request, shape: type[Body]) -> Body:
    """Return the body of a request, decoded from JSON, a form or the query.

    A field that is repeated in a form or in the query is a list. Raises `ClientFault`:
    ``bad_frame``, ``too_long``, ``timeout``.
    """
    hub: Hub = request.app.state.hub
    async with _within(BODY_S):
        data = b"".join([chunk async for chunk in _chunks(request, hub.limits.frame)])
    is_form = request.headers.get("content-type", "").startswith((URLENCODED, MULTIPART))
    with _decoding("Send JSON, such as", shape):
        # curl -d declares a form whatever it sends. A body that begins with a brace is JSON.
        if (is_form or not data) and not data.lstrip().startswith(b"{"):
            fields = [*request.query_params.multi_items(), *await _fields(request, data)]
            return msgspec.convert(_values(fields), shape, strict=False)
        return msgspec.json.decode(data, type=shape)


async def read_upload(request: Request, shape: type[Body], limit: int, seconds: float) -> Body:
    """Return the body of a request, decoded from a multipart form with one file, a field of bytes.

    The file is never written to a disk. Raises `ClientFault`: ``bad_frame``, ``too_long``,
    ``timeout``.
    """
    with _decoding("Send a form, such as", shape):
        async with _within(seconds), aclosing(_chunks(request, limit)) as chunks:
            fields = await _multipart(request, chunks, files=1)
        return msgspec.convert(_values(fields), shape, strict=False)


@contextmanager
def _decoding(hint: str, shape: type[BodyShape]) -> Iterator[None]:
    """Turn the faults of a body into `ClientFault` (``bad_frame``)."""
    try:
        yield
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as exc:
        raise bad_frame(
            f"The body could not be read: {str(exc)[:200]}.",
            f"{hint} {shape.EXAMPLE}.",
        ) from exc


@asynccontextmanager
async def _within(seconds: float) -> AsyncGenerator[None]:
    """Turn the faults of a connection into `ClientFault`, and a body that comes too late."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise ClientFault(
            ErrorCode.TIMEOUT, f"The body did not come within {seconds:g} s."
        ) from None
    except ClientDisconnect:
        raise ClientFault(ErrorCode.NOT_FOUND, "The caller hung up.") from None


async def _chunks(request: Request, limit: int) -> AsyncGenerator[bytes]:
    """Yield a body of at most ``limit`` bytes. Raises `ClientFault` (``too_long``)."""
    size = 0
    declared = request.headers.get("content-length", "0")
    # uvicorn has checked that these are digits; other servers may not have.
    if declared.isdecimal() and int(declared[:19]) > limit:
        raise _too_large(limit)
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > limit:  # a chunked body has no header with its length
                raise _too_large(limit)
            yield chunk


def _too_large(limit: int) -> ClientFault:
    return ClientFault(ErrorCode.TOO_LONG, f"The body is larger than {limit} bytes.")


def _values(fields: Iterable[tuple[str, T]]) -> dict[str, T | list[T]]:
    """Return fields by name; a field that is repeated becomes a list."""
    values: dict[str, list[T]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name: value[0] if len(value) == 1 else value for name, value in values.items()}


async def _fields(request: Request, data: bytes) -> list[tuple[str, str | bytes]]:
    """Return the fields of a form, which may have no files. Raises `ValueError`."""
    if not request.headers.get("content-type", "").startswith(MULTIPART):
        return [*parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=FIELDS)]

    async def chunks() -> AsyncGenerator[bytes]:
        yield data

    return await _multipart(request, chunks(), files=0)


class MemoryParser(MultiPartParser):
    """A parser of forms that keeps files in memory, which the bound of a body bounds."""

    spool_max_size = sys.maxsize


async def _multipart(
    request: Request, chunks: AsyncGenerator[bytes], *, files: int
) -> list[tuple[str, str | bytes]]:
    """Return the fields of a multipart form with so many files at most. Raises `ValueError`."""
    media_type = request.headers.get("content-type", "")
    if not media_type.startswith(MULTIPART):
        raise ValueError("it is no multipart form")
    # RFC 7578 has no such parameter, but Starlette decodes with any codec of Python that it names,
    # and some of them take long or make lone surrogates.
    if b"charset" in parse_options_header(media_type)[1]:
        raise ValueError("a multipart form is UTF-8 and names no charset")
    parser = MemoryParser(request.headers, chunks, max_files=files, max_fields=FIELDS)
    try:
        form = await parser.parse()
    except MultiPartException as exc:
        raise ValueError(exc.message) from exc
    try:
        return [
            (name, value if isinstance(value, str) else await value.read())
            for name, value in form.multi_items()
        ]
    finally:
        await form.close()
