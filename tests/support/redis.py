"""A real Redis for tests."""

from benchmarks.redis_server import RedisServer

__all__ = ["RedisServer"]
