"""Which of the tests that boot machines `make test` runs: of each thing that users do, and of each promise, one file.
The others try more networks, strategies, programs and ways to fail: `make test-broad`, and continuous integration."""

from __future__ import annotations

CORE: frozenset[str] = frozenset()
"""Files, below tests/."""
