"""Tasks that go on, and requests that the gateway makes itself: the effects that all rims share."""
