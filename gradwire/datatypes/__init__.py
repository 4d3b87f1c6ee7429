"""Frozen data that the stages exchange: the plan, the network, the logs of a run, and the formats on the wire.

These modules import the standard library, numpy, each other, and what all of the package may import; every stage may
import them.
"""
