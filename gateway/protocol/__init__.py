"""The wire protocol: messages, codecs, frames and its schema. Pure."""
