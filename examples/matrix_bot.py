"""A bot that translates the messages of a Matrix room, and writes the translation below.

It needs an access token of a Matrix account that has joined the room, and nothing of Matrix but two
requests: ``/sync`` and ``/send``. The same shape suits any chat with a long poll or a socket.
"""

import asyncio
import os
from urllib.parse import quote

import httpx2 as httpx

from caption_gateway import Client, connect
from caption_gateway.messages import Final

ROOM = os.environ["MATRIX_ROOM"]
TO = os.environ.get("TO", "en")


async def listen(matrix: httpx.AsyncClient, client: Client) -> None:
    """Say the messages of the room. The id of a message becomes the id of its utterance."""
    me = (await matrix.get("/account/whoami")).json()["user_id"]
    query = {"timeout": "30000"}
    while True:
        answer = (await matrix.get("/sync", params=query)).json()
        # The first answer has what was written before.
        rooms = answer.get("rooms", {}).get("join", {}) if "since" in query else {}
        query["since"] = answer["next_batch"]
        for event in rooms.get(ROOM, {}).get("timeline", {}).get("events", []):
            text = event["content"].get("body")
            if event["type"] == "m.room.message" and event["sender"] != me and text:
                await client.say(text, speaker=event["sender"])


async def answer(matrix: httpx.AsyncClient, client: Client) -> None:
    """Write each finished caption into the room."""
    async for event in client:
        if isinstance(event, Final) and event.lang == TO and event.by != "same":
            path = f"/rooms/{quote(ROOM)}/send/m.room.message/{event.id}-{event.rev}-{event.seq}"
            await matrix.put(path, json={"msgtype": "m.notice", "body": event.text})


async def main() -> None:
    """Run both directions until one of them fails."""
    base = os.environ["MATRIX_URL"] + "/_matrix/client/v3"
    headers = {"authorization": f"Bearer {os.environ['MATRIX_TOKEN']}"}
    gateway = os.environ.get("GATEWAY", "ws://127.0.0.1:8000")
    async with (
        httpx.AsyncClient(base_url=base, headers=headers, timeout=60) as matrix,
        connect(gateway, room="matrix", to=[TO]) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(listen(matrix, client))
        group.create_task(answer(matrix, client))


if __name__ == "__main__":
    asyncio.run(main())
