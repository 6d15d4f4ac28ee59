"""A receiver of the gateway's webhooks. It keeps the finished captions of each room.

Standard Webhooks may deliver a message twice: one whose id is known is not handled again.
"""

import os
from collections import defaultdict

from fastapi import FastAPI, HTTPException, Request
from standardwebhooks import Webhook, WebhookVerificationError

app = FastAPI()
webhook = Webhook(os.environ["WEBHOOK_SECRET"])
handled: set[str] = set()  # a real receiver keeps them in its database, for a day
captions: defaultdict[str, dict[str, str]] = defaultdict(dict)


@app.post("/captions", status_code=204)
async def receive(request: Request) -> None:
    """Handle the events of one message."""
    try:
        message = webhook.verify(await request.body(), dict(request.headers))
    except WebhookVerificationError:
        raise HTTPException(401) from None
    if request.headers["webhook-id"] in handled:
        return
    room = captions[message["data"]["room"]]
    for event in message["data"]["events"]:
        match event["type"]:
            case "final" | "edited":
                room[f"{event['id']} {event['lang']}"] = event["text"]
            case "retracted":
                for key in [key for key in room if key.startswith(f"{event['id']} ")]:
                    del room[key]
    handled.add(request.headers["webhook-id"])


@app.get("/captions/{room}")
async def show(room: str) -> dict[str, str]:
    """Answer with the captions of a room, by utterance and language."""
    return captions[room]
