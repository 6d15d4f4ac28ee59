"""Closed captions in a stream of OBS Studio, which viewers switch on in their player.

OBS 28 and later listens on port 4455 once "Tools, WebSocket Server Settings" says so. It writes
what it is sent into the stream as CEA-608: Latin letters only, in four rows of 32. For Japanese,
Chinese or Arabic take the overlay page as a browser source instead.
"""

import asyncio
import os
import textwrap

import obsws_python

from caption_gateway import connect
from caption_gateway.messages import Final

TO = os.environ.get("TO", "en")
COLUMNS, ROWS = 32, 4
PART_S = 2
"""Seconds from one part of a long caption to the next."""


def divide(text: str) -> list[str]:
    """Return a text in parts that fit on the screen; OBS breaks each into rows itself."""
    rows = textwrap.wrap(text, COLUMNS)
    return [" ".join(rows[at : at + ROWS]) for at in range(0, len(rows), ROWS)]


def send(obs: obsws_python.ReqClient, text: str) -> None:
    """Show a caption until the next one. While OBS does not stream, it takes none."""
    if obs.get_stream_status().output_active:
        obs.send_stream_caption(text)


async def main() -> None:
    """Send each finished caption, until OBS or the gateway has gone for good."""
    obs = obsws_python.ReqClient(
        host=os.environ.get("OBS_HOST", "127.0.0.1"),
        port=int(os.environ.get("OBS_PORT", "4455")),
        password=os.environ["OBS_PASSWORD"],
        timeout=5,
    )
    gateway = os.environ.get("GATEWAY", "ws://127.0.0.1:8000")
    async with connect(gateway, room=os.environ["ROOM"], role="view", to=[TO]) as client:
        async for event in client:
            if isinstance(event, Final) and event.lang == TO:
                for number, text in enumerate(divide(event.text)):
                    await asyncio.sleep(PART_S if number else 0)
                    await asyncio.to_thread(send, obs, text)


if __name__ == "__main__":
    asyncio.run(main())
