"""Captures the packets of ports to files, in a separate process."""
