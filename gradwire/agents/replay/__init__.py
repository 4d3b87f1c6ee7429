"""Replays a plan without I/O: the state of every op, the lanes that ops queue for, and the log of what was done."""
