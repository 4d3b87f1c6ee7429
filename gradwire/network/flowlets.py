"""Flowlets: what a connection sends until it has nothing to send for a while (`fabric.routing = "flowlet"`). Pure.

A gap longer than the ways' delays differ keeps packets in order whatever way the next one takes (Sinha, Kandula and
Katabi, Harnessing TCP's Burstiness with Flowlet Switching, HotNets 2004). The sender's host knows its gaps and chooses,
as the edge does in Clove's Edge-Flowlet (Katta et al., Clove: Congestion-Aware Load Balancing at the Virtual Edge,
CoNEXT 2017). The choice is by chance, as in LetFlow (Vanini et al., NSDI 2017), and here by a seed.
"""

from __future__ import annotations

from gradwire.network.balanced_routes import stable_hash

FLOWLET_GAP_S = 500e-6
"""T_fl of CONGA (Alizadeh et al., SIGCOMM 2014)."""


def flowlet_way(seed: int, connection: int, flowlet: int, ways: int) -> int:
    """The way of a flowlet, by the numbers of its connection and of itself there, from 0."""
    return stable_hash(seed, "flowlet", connection, flowlet) % ways


def mark_of_way(way: int) -> int:
    """Returns the mark (SO_MARK) that packets carry inside their host for a way. Packets without a mark have 0."""
    return way + 1
