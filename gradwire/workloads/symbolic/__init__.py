"""Executes a plan without time, and tracks whose contributions every rank holds of every chunk.

What one order of steps shows holds for that order alone: a missing dependency opens a race, and only shows where that
race is lost. The plan is therefore executed in several orders, which pull apart whatever no dependency holds together
(workloads/symbolic/verification.py).
"""
