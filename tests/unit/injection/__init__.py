"""Faults of a network, without a kernel."""
