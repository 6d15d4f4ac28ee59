"""The session of one socket: frames in, resume, quotas. Pure."""
