"""Scenarios: the keys of their files, how they are read and resolved to points, and messages about their defects."""
