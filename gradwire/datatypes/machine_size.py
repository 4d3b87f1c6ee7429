"""How large a machine with the virtual-time kernel is."""

from __future__ import annotations

DEFAULT_MEMORY_MB = 3072
"""Its memory where nothing else is said."""
