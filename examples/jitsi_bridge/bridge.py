"""A bridge from Jitsi's transcriber to the gateway, in the place of Skynet.

Jigasi sends Skynet, a server for Whisper, all speech of a meeting on one WebSocket. A frame has 60
bytes with ``participant|language`` and zeros, and then PCM of 16 kHz. A single zero ends the
meeting. This was written from the published code of both, and not tried with a Jitsi server.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import AsyncIterator

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from caption_gateway import Client, Refused, connect
from caption_gateway.messages import HeardSpeech

HEADER = 60
WAITING = 30  # pieces of one participant, mostly of a second; the oldest is dropped
PAUSE_S = 2
BEGAN = time.time()  # begin of the clock of all speakers


async def recorded(pieces: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    """Yield speech until an empty piece.

    Nothing comes from somebody who is muted. Then silence is yielded, so that the last words end.
    """
    while True:
        try:
            async with asyncio.timeout(PAUSE_S):
                piece = await pieces.get()
        except TimeoutError:
            piece = bytes(2 * 16_000 * PAUSE_S)
        if not piece:
            return
        yield piece


async def answer(jitsi: ServerConnection, client: Client, participant: str) -> None:
    """Send Jigasi the recognised text, which it shows in the meeting."""
    async for event in client:
        if isinstance(event, HeardSpeech):
            id = uuid.uuid5(uuid.NAMESPACE_URL, f"{client.welcome.session} {event.id}")
            kind = "final" if event.final else "interim"
            said = {
                "id": str(id),
                "participant_id": participant,
                "ts": round(1000 * (BEGAN + event.t0)),
            }
            said |= {"text": event.text, "audio": "", "type": kind, "variance": 1.0}
            with contextlib.suppress(ConnectionClosed):
                await jitsi.send(json.dumps(said))


async def speak(jitsi: ServerConnection, header: str, pieces: asyncio.Queue[bytes]) -> None:
    """Let the gateway recognise and translate the speech of one participant."""
    participant, _, lang = header.rpartition("|")
    meeting = jitsi.request.path.partition("?")[0].rpartition("/")[2] if jitsi.request else ""
    gateway = os.environ.get("GATEWAY", "ws://127.0.0.1:8000")
    try:
        async with (
            connect(
                gateway,
                room=os.environ.get("ROOM", meeting),
                source=None if lang == "null" else lang,
                speaker=participant,
                key=os.environ.get("KEY"),
            ) as client,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(answer(jitsi, client, participant))
            await client.send_audio(recorded(pieces), t0=time.time() - BEGAN)
            await client.bye()
    except* Refused as refused:  # the other participants go on
        print(f"{header}: {refused.exceptions[0]}", file=sys.stderr, flush=True)


async def meet(jitsi: ServerConnection) -> None:
    """Serve one meeting."""
    speakers: dict[str, asyncio.Queue[bytes]] = {}
    async with asyncio.TaskGroup() as group:
        async for frame in jitsi:
            if isinstance(frame, str) or len(frame) <= HEADER:
                break
            header = frame[:HEADER].rstrip(b"\0").decode(errors="replace")
            if header not in speakers:
                speakers[header] = asyncio.Queue(WAITING)
                group.create_task(speak(jitsi, header, speakers[header]))
            if speakers[header].full():
                speakers[header].get_nowait()
            speakers[header].put_nowait(frame[HEADER:])
        for pieces in speakers.values():
            await pieces.put(b"")


async def main() -> None:
    """Listen for Jigasi until cancelled."""
    async with serve(meet, "127.0.0.1", int(os.environ.get("PORT", "9100"))) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
