"""The tables [job.NAME] of scenarios: how one of several jobs takes its place on the network they share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gradwire.network.fabric import MAX_BANDS
from gradwire.workloads.fields import DurationS, Names, Section


class JobPlace(Section):
    """Where a job runs, when it begins, and how urgent its data is."""

    hosts: Names = ()
    """Hosts that it runs on, in the order of its workers, and then of its servers where these have separate hosts: `["h1", "h3"]`.
    Unset: as `placement` says."""
    placement: Literal["packed", "spread", "random"] = "packed"
    """Which of the hosts that no job has a list of it gets: "packed", the first ones; "spread", one at each switch in turn; "random", drawn
    by `run.seed`."""
    start: DurationS = Field(0.0, ge=0)
    """How much later than the others its first iteration begins: less than one of its iterations takes."""
    priority: int = Field(0, ge=0, le=MAX_BANDS - 2)
    """Added to the traffic classes of its strategy: of two jobs, the one with 0 goes first at every port where the other has 1."""
