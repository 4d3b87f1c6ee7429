"""Estimates of jobs by classes of ranks: the fluid engine replays one rank of each class (docs/thousands.md)."""
