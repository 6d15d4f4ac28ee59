"""A bridge from a recogniser of yours to the gateway.

It reads lines of JSON from standard input, as Vosk's recognisers return them: ``{"partial": "good
mor"}`` while somebody speaks, ``{"text": "good morning"}`` at the end of an utterance. Captions in
the language ``TO`` are printed.
"""

import asyncio
import itertools
import json
import os
import sys

from caption_gateway import Client, NotTranslated, connect

FROM, TO = os.environ.get("FROM", "en"), os.environ.get("TO", "de")


async def show(client: Client, id: str) -> None:
    """Print the caption of an utterance when it is finished."""
    try:
        print((await client.caption(id, TO)).text, flush=True)
    except NotTranslated as fault:
        print(f"{id}: {fault}", file=sys.stderr)


async def main() -> None:
    """Send every line of the recogniser at once, and end when it ends."""
    url = os.environ.get("GATEWAY", "ws://127.0.0.1:8000")
    room = os.environ.get("ROOM", "demo")
    ids = (f"s{n}" for n in itertools.count(1))
    id = next(ids)
    async with (
        connect(url, room=room, source=FROM, to=[TO]) as client,
        asyncio.TaskGroup() as group,
    ):
        while line := await asyncio.to_thread(sys.stdin.readline):
            heard = json.loads(line)
            if text := heard.get("partial"):
                await client.say(text, id=id, final=False)
            elif text := heard.get("text"):
                await client.say(text, id=id)
                group.create_task(show(client, id))
                id = next(ids)


if __name__ == "__main__":
    asyncio.run(main())
