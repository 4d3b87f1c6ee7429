"""Faults put in on purpose, to see which check finds each of them: plans, agents, tc, flows, and logs.

A fault is injected where the real thing is built, and its run is judged like any other. benchmarks/mutations.py runs all of them and
writes outcomes.md.
"""
