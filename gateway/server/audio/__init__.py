"""The decoding of audio that clients send."""
