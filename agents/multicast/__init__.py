"""Reliable multicast: its protocol without I/O, and its sockets."""
