"""The table of one fault: what fails, on which device, when, and for how long."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gradwire.documents import Document, DocumentTable
from gradwire.workloads.fields import Because, DurationS, RateBps, Section

FaultKind = Literal[
    "link-down",
    "flapping",
    "loss",
    "delay",
    "rate",
    "slow-worker",
    "dead-worker",
    "switch-restart",
    "controller-restart",
    "tenant",
]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
NEEDS: Mapping[str, tuple[str, ...]] = {
    "link-down": ("link",),
    "flapping": ("link", "every"),
    "loss": ("link", "loss"),
    "delay": ("link", "delay"),
    "rate": ("link", "rate"),
    "slow-worker": ("worker", "factor"),
    "dead-worker": ("worker",),
    "switch-restart": ("switch", "duration"),
    "controller-restart": ("duration",),
    "tenant": ("source", "destination", "rate"),
}
"""The keys that each kind of fault must have in addition to its time."""
OWN_KEYS = ("link", "worker", "switch", "source", "destination", "loss", "delay", "rate", "factor", "every")
"""The keys that only some kinds take."""
HARMLESS = frozenset({"slow-worker", "dead-worker", "controller-restart", "tenant"})
"""Kinds that neither lose a packet nor delay one beyond what TCP expects."""
OF_NETWORKS = tuple(kind for kind, keys in NEEDS.items() if kind != "tenant" and "worker" not in keys)
"""Kinds that happen to a network, whatever runs on it."""
LARGEST_FACTOR = 1e6
NOTHING_GETS_THROUGH = Because("where nothing gets through, the link is down: kind = 'link-down'")
SHORTEST_PERIOD_S = 1e-3
"""Two commands for each period are run inside the machine, each some milliseconds of wall time."""


class FaultSection(Section):
    """A fault during the replay. What fails is repaired at its end, also where the last iteration ends before."""

    kind: FaultKind
    """What happens: a link is down, or goes down and up ("flapping"), loses or delays packets, or is slower ("rate"), in both directions; a
    worker computes slower or dies; a switch or the controller restarts; another tenant of the network sends from one host to another."""
    at: DurationS = Field(0.0, ge=0)
    """Virtual time after which it begins: after the beginning of the replay, or of `iteration`; in a scenario of programs, after the
    beginning of the run."""
    iteration: int | None = Field(None, ge=0)
    """Iteration after whose beginning `at` counts, warm-up included: it begins when all those before it have ended."""
    duration: DurationS | None = Field(None, gt=0)
    """Virtual time after which it ends; by default it lasts to the end of the replay."""
    link: str | None = None
    """Where, of faults of links: the link of a host ("h1"), the one at a port ("s1-eth2"), or the one between two
    devices ("s1-s3", "leaf1-spine1")."""
    worker: int | None = Field(None, ge=0)
    """Where, of faults of workers: the worker's number, from 0."""
    job: str | None = None
    """Whose worker it is, where several jobs share the network."""
    switch: str | None = None
    """Where, of a restart: "s1"."""
    source: str | None = None
    """The host from which a tenant sends: "h1"."""
    destination: str | None = None
    """The host to which it sends."""
    loss: Annotated[float | None, NOTHING_GETS_THROUGH] = Field(None, gt=0, lt=1)
    """Share of packets that are lost at random in each direction. A burst of `fabric.gso` is lost as a whole."""
    delay: DurationS | None = Field(None, gt=0)
    """Time by which packets arrive later in each direction."""
    rate: RateBps | None = None
    """Line rate that is left; or that a tenant takes where it can, with headers and gaps."""
    factor: float | None = Field(None, gt=1, le=LARGEST_FACTOR)
    """How many times longer a slow worker takes to compute, additions included."""
    every: DurationS | None = Field(None, ge=SHORTEST_PERIOD_S)
    """Period of a link that flaps: it is down for the first half of each."""

    @model_validator(mode="after")
    def _keys_of_its_kind(self) -> Self:
        needed = NEEDS[self.kind]
        lines = [f"{key}: missing; kind = '{self.kind}' needs it" for key in needed if getattr(self, key) is None]
        for key in OWN_KEYS:
            if key not in needed and getattr(self, key) is not None:
                kinds = " or ".join(f"'{kind}'" for kind, keys in NEEDS.items() if key in keys)
                lines.append(f"{key}: has no effect with kind = '{self.kind}'; it is for kind = {kinds}")
        if self.job is not None and "worker" not in needed:
            lines.append(
                f"job: has no effect with kind = '{self.kind}', which is the network's; it is for faults of workers"
            )
        if self.kind == "dead-worker" and self.duration is not None:
            lines.append("duration: the dead do not come back: leave it out")
        if self.kind == "tenant" and self.source is not None and self.source == self.destination:
            lines.append(f"destination = '{self.destination}': must be another host than the source")
        if lines:
            raise ValueError("\n".join(lines))
        return self


def named_faults(document: DocumentTable) -> Document:
    """A scenario's content with a list of faults (`[[fault]]`) as a table, whose names are their numbers from 1 on.

    In a table they can be swept and set by their names, like `fault.1.at`. Anything else stays as it is.
    """
    listed = document.get("fault")
    if not isinstance(listed, list):
        return dict(document)
    return {**document, "fault": {str(number): fault for number, fault in enumerate(listed, start=1)}}


def hosts_named(faults: Mapping[str, FaultSection]) -> Iterator[str]:
    """The hosts that tenants send from and to."""
    for fault in faults.values():
        yield from (host for host in (fault.source, fault.destination) if host is not None)


def program_fault_defects(faults: Mapping[str, FaultSection]) -> Iterator[str]:
    """Describes faults that a scenario of programs cannot have, one line each, with the key."""
    for name, fault in faults.items():
        if fault.kind == "tenant":
            yield f"fault.{name}.kind = 'tenant': a tenant is a program here: [program.NAME] with its start"
        elif fault.worker is not None:
            yield f"fault.{name}.kind = '{fault.kind}': programs have no workers; kinds are {', '.join(OF_NETWORKS)}"
        if fault.iteration is not None:
            yield f"fault.{name}.iteration: programs have no iterations; leave it out, and say the time in `at`"


def may_lose(faults: Mapping[str, FaultSection]) -> bool:
    """Returns whether a network with these faults may lose packets, or let them come so late that TCP takes them for
    lost."""
    return any(fault.kind not in HARMLESS for fault in faults.values())


def name_defects(faults: Mapping[str, FaultSection]) -> Iterator[str]:
    """Describes names of faults that cannot be shown in messages and traces."""
    for name in faults:
        if not NAME.fullmatch(name):
            yield f"fault.{name}: a name has letters, digits, dashes and underscores"
