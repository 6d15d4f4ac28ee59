"""Signatures of webhooks, verified by the package of Standard Webhooks."""

from __future__ import annotations

import base64
import time

import pytest

from gateway.auth import webhook_signatures

SECRET = webhook_signatures.PREFIX + base64.b64encode(bytes(range(32))).decode()


def test_the_package_of_standard_webhooks_accepts_a_signature() -> None:
    from standardwebhooks import Webhook, WebhookVerificationError

    body = '{"text":"字幕"}'
    headers = webhook_signatures.signature(SECRET, "evt_1", int(time.time()), body.encode())
    assert Webhook(SECRET).verify(body, headers) == {"text": "字幕"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + " ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body, headers | {"webhook-id": "evt_2"})


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "whsec_short", "whsec_" + "A" * 100, SECRET.removeprefix("whsec_"), "whsec_é"],
)
def test_a_secret_of_another_form_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(ValueError, match="24 to 64 bytes") as refused:
        webhook_signatures.key(secret)
    assert not secret or secret == "whsec_" or secret not in str(refused.value)
