"""Results of points."""

from __future__ import annotations

import math

from gradwire.analysis.points import scaling_efficiency


def test_an_iteration_of_requests_has_no_efficiency() -> None:
    assert scaling_efficiency(1.0, 4.0, serves=False) == 0.25
    assert math.isnan(scaling_efficiency(1.0, 4.0, serves=True))
