"""Experiments that measure gradwire itself. Each is a command that prints its figures."""
