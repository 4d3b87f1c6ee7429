"""Why no check finds some faults, which change times or bytes all the same."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[tuple[str, str], str] = {}
"""By family and name of the fault."""
