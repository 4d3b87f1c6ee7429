"""What the stages exchange, as frozen data: the plan, the network, what a run logs, and what goes over the wire.

These modules import the standard library, numpy, each other, and what all of the package may import; every stage may
import them.
"""
