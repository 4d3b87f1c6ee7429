"""The sources of printed values: each a module that makes a cell of any row of the source's tables."""

from __future__ import annotations

from reproduction.world.cells import Source
from reproduction.world.sources.tc_cluster import TC_CLUSTER

SOURCES: tuple[Source, ...] = (TC_CLUSTER,)
