"""The strategy `single-call`, which scenarios name by this file."""

from gradwire.workloads.trace_replay.single_call import STRATEGIES

__all__ = ["STRATEGIES"]
