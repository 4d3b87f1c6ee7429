"""What a strategy is to the rest of gradwire: a name, its options, and the function that compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from gradwire.workloads.job import Cluster, Job
from gradwire.workloads.plan import Plan
from gradwire.workloads.stand_in import Load


class Options(BaseModel):
    """Base of every strategy's options: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Strategy:
    """A communication strategy.

    summary: one line for people. source: paper and section. options: pydantic class of its options.
    compile: from a job and options to the candidate plans by label: one, or several of which the run keeps the fastest.
    classes: traffic classes that it needs from the fabric, given its options.
    aggregators: whether it needs an aggregator on every switch.
    load: what each of its allreduces asks of a cluster, by which a small cluster can stand for a large one; None: not known.
    """

    name: str
    summary: str
    source: str
    options: type[Options]
    compile: Callable[[Job, Any], Mapping[str, Plan]]
    classes: Callable[[Any], int]
    needs_servers: bool = True
    aggregators: bool = False
    load: Callable[[Cluster, Any], Load] | None = None
