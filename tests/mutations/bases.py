"""The sound points that faults are put into: small, but with all that faults need to be put somewhere."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gradwire.datatypes.plan import Plan
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import Compiled, compile_point
from tests.mutations.fault import STAR

LAYERS = [
    {"name": f"layer{number}", "kind": "conv", "size": [size], "forward": forward, "backward": backward}
    for number, (size, forward, backward) in enumerate(
        (("400kB", "2ms", "4ms"), ("1200kB", "3ms", "5ms"), ("2MB", "1ms", "2ms"), ("800kB", "1ms", "3ms"))
    )
]
DEPARTURE = {"send_ends": "departure"}
"""Has more checks than sockets that buffer."""
COMMON: dict[str, Any] = {
    "title": "a sound point",
    "cluster": {"workers": 3},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "made-up", "layers": LAYERS},
    "costs": {
        "aggregation_rate": {"value": "2GB/s", "source": "made up"},
        "message_latency": {"value": "20us", "source": "made up"},
    },
    "transport": DEPARTURE,
    "run": {"warmup": 1, "iterations": 3, "seed": 1},
}
INCAST = {"cluster": {"workers": 3, "servers": 1, "colocated": False}}
SHALLOW = {"rate": "10gbit", "buffer": "100KB"}
DCTCP = {"transport": {**DEPARTURE, "congestion": "dctcp"}}
FAR = {f"link{host}": {"kind": "delay", "link": f"h{host}", "delay": "5ms"} for host in (1, 2, 3)}
"""20 ms for a round trip, in which the line carries 25 MB."""
LEAF_SPINE = {"rate": "10gbit", "topology": "leaf-spine", "leaves": 2, "spines": 2}
BASES: Mapping[str, dict[str, Any]] = {
    STAR: {"strategy": {"name": "geryon"}},
    "priorities": {"strategy": {"name": "p3", "options": {"slice_parameters": 20_000}}, "fabric": {"rate": "2gbit"}},
    "counters": {"strategy": {"name": "tictac", "options": {"order": "reverse"}}, "fabric": {"rate": "2gbit"}},
    "marks": {"strategy": {"name": "kvstore"}, **INCAST, "fabric": {**SHALLOW, "ecn": "30KB"}, **DCTCP},
    "drops": {"strategy": {"name": "kvstore"}, **INCAST, "fabric": SHALLOW},
    "far": {"strategy": {"name": "ring"}, "fault": FAR},
    "ring": {"strategy": {"name": "ddp"}},
    "tree": {"strategy": {"name": "multicast-ps"}, "cluster": {"workers": 4}, "fabric": LEAF_SPINE},
}
"""What differs from COMMON."""


@lru_cache(maxsize=8)
def point_of(base: str) -> Point:
    """The point of this name."""
    document = copy.deepcopy({**COMMON, **BASES[base]})
    (point,) = resolve(document, f"the sound point {base}", base).points
    return point


@lru_cache(maxsize=8)
def compiled(base: str) -> Compiled:
    """The point as it is compiled."""
    return compile_point(point_of(base).section)


@lru_cache(maxsize=8)
def plan_of(base: str) -> Plan:
    """Its plan; of several candidates the one with most traffic classes."""
    return max(compiled(base).plans.values(), key=lambda plan: int(plan.ops.traffic_class.max()))
