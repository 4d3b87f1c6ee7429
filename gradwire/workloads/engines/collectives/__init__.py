"""Collectives as schedules: the shape of all, the algorithms, and which one to take."""

from gradwire.workloads.engines.collectives.allreduces import (
    butterfly,
    halving_doubling,
    hierarchical_ring,
    ring,
    ring_among,
    whole_ring,
)
from gradwire.workloads.engines.collectives.schedule import Row, RowOrder, Schedule

__all__ = [
    "Row",
    "RowOrder",
    "Schedule",
    "butterfly",
    "halving_doubling",
    "hierarchical_ring",
    "ring",
    "ring_among",
    "whole_ring",
]
