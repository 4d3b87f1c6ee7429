"""The table [part] of scenarios: selects the machines of a job that run by packets, while stand-ins send and receive
for the rest."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import Field, model_validator

from gradwire.workloads.fields import InWords, Section

RANGE = re.compile(r"h([1-9][0-9]{0,5})-h([1-9][0-9]{0,5})")
"""Hosts of a network, from one to another."""


Hosts = Annotated[str, Field(pattern=f"^{RANGE.pattern}$"), InWords('the first and the last host, such as "h1-h16"')]


class PartSection(Section):
    """Which hosts of the network run by packets, with all their ranks. Of the others, only those that exchange messages with them are
    there, as stand-ins that send and receive at the times of an estimate of the whole (docs/thousands.md)."""

    hosts: Hosts | None = None
    """The first and the last of these hosts, in the network of the whole job: "h1-h16"."""
    leaf: int | None = Field(None, ge=1)
    """Instead: the hosts at a leaf, by its number."""
    copies: int | None = Field(None, ge=2, le=1024)
    """Instead, on one switch: so many copies of each class of ranks that do the same, such as replicas of `megatron`; what
    these exchange with all others, they exchange with one another. For jobs of any size that are estimated by classes."""

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        given = [name for name in ("hosts", "leaf", "copies") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError('say which hosts: either hosts, such as "h1-h16", or leaf, or copies')
        return self
