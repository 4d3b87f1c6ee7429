"""The size of a machine with the virtual-time kernel."""

from __future__ import annotations

DEFAULT_MEMORY_MB = 3072
"""Its memory where nothing else is said."""
LEAST_CPU_TIME, MOST_CPU_TIME = 0.001, 1000.0
"""Factors of the CPU time that computation takes (vm/patches/6.12/work-takes-time.patch counts thousandths)."""
