"""Reliable multicast over UDP: its protocol, without I/O, and its sockets."""
