"""Several gateways that share their rooms through Redis or Valkey."""
