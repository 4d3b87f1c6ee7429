"""Replays a plan over real sockets: interpreters without I/O, one event loop, framing, and the logs of what happened."""
