"""How many examples a property is tried with: all of them in `make test-long`, and a fifth in `make test`, which everybody waits for."""

from __future__ import annotations

import os

TRIES_ALL = os.environ.get("GRADWIRE_EXAMPLES") == "all"
SHARE = 5
DEFAULT = 100
"""Hypothesis' own."""


def examples(most: int) -> int:
    """The number of examples of a property that `make test-long` tries with `most`."""
    return most if TRIES_ALL else max(1, most // SHARE)
