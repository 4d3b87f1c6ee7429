"""Finds the things that the names in a scenario's point stand for: the strategy, the job, the fabric, the faults, and
the compiled plans."""
