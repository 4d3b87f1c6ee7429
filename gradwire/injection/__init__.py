"""Faults of a network as they are carried out inside the machine: what is due when, and the commands that do it."""
