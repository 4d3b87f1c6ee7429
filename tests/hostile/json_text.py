"""Kineto profiles and PyTorch execution traces with wrong values in them, as text."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

WRONG: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 31, 32, 63, 64, 65, 1023, 65_536, 65_537, 10**6, 10**9, 2**31 - 1, 2**31, 2**32, 2**50,
    2**53, 2**63 - 1, 2**63, 2**64, 10**30, -(2**31), -(2**63), -(10**30), 0.1, -0.5, 1e300, -1e300, 1e-300, float("nan"),
    float("inf"), float("-inf"), "", " ", "0", "-1", "1e309", "nan", "x", "...", "[0, 1]", "[0, ...]", "[0, 1, ...]", "[999999999]",
    "[[]]", "[1, 2", "é" * 40, "\x00", "\ud800", "[red]", "x" * 100_000, "9" * 5000, "[" * 5000, [], [[]], [0], [0, 1], [1, 0],
    [0, 0], [-1, 0], list(range(300)), [None], ["a"], {}, {"a": 1}, {"pg_name": "0"}, "allreduce", "wait", "send", "recv",
    "broadcast", "allgather", "reduce_scatter", "all_to_all", "barrier", "gather", "scatter", "init", "coalesced", "Float",
    "BFloat16", "Quaternion", "record_param_comms", "ProfilerStep#1", "ProfilerStep#" + "9" * 400, "cudaStreamWaitEvent",
    "## process_group:init ##", "kernel", "cuda_runtime", "X", "0", "1",
)  # fmt: skip
"""Values of wrong types, out of every range, or right in another place."""
DEPTHS = (1, 50, 900, 1100, 20_000)
MOST_STEPS = 12


def spoiled(document: dict[str, Any], random: Random) -> str:
    """The document with up to a dozen of its values wrong, missing, repeated or nested deeply."""
    document = copy.deepcopy(document)
    for _ in range(random.choice((0, 0, 1, 1, 1, 1, 2, 3, MOST_STEPS))):
        _spoil(document, random)
    text = json.dumps(document, indent=random.choice((None, None, 1)), ensure_ascii=random.random() < 0.8)
    if random.random() < 0.05:
        depth = random.choice(DEPTHS)
        opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
        at = random.randrange(len(text))
        text = (
            text[:at]
            + opening * depth
            + random.choice(("", "1", "null"))
            + closing * random.choice((depth, 0))
            + text[at:]
        )
    return text


def _wrong(random: Random) -> Any:
    return copy.deepcopy(random.choice(WRONG))


def _spoil(document: Any, random: Random) -> None:
    """Changes one place, found by walking down at random."""
    at = document
    while True:
        if isinstance(at, dict) and at:
            key: Any = random.choice(list(at))
        elif isinstance(at, list) and at:
            key = random.randrange(len(at))
        else:
            return
        if isinstance(at[key], dict | list) and at[key] and random.random() < 0.85:
            at = at[key]
            continue
        break
    choice = random.random()
    if choice < 0.65:
        at[key] = _wrong(random)
    elif choice < 0.75:
        del at[key]
    elif choice < 0.85 and isinstance(at, list):
        at.insert(random.randrange(len(at) + 1), copy.deepcopy(random.choice(at)))
    elif choice < 0.9 and isinstance(at, list):
        random.shuffle(at)
    elif choice < 0.95 and isinstance(at, dict):
        at[str(_wrong(random))[:50]] = _wrong(random)
    else:
        other = _wrong(random)
        at[key] = [at[key], other] if random.random() < 0.5 else {"a": at[key]}
