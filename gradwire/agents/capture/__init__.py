"""Captures the packets of ports to files, in a process of its own."""
