"""`fabric.topology = "fat-tree"`: pods of leaves and spines, joined by cores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gradwire.network.shape_numbers import ShapeNumbers
from gradwire.network.structures.leaf_spine import LEAST_TC_RATE_BPS, MOST_TC_RATE_BPS, LeafSpine, rails_in_words
from gradwire.network.tiers import Tiers


class FatTree(LeafSpine):
    """Three tiers of switches; a pod is a leaf/spine network."""

    name = "fat-tree"
    keys = (*LeafSpine.keys, "pods", "cores", "core_oversubscription")
    can_aggregate = False
    has_parts = False
    of_pod = " of each pod"

    def core_defects(self, numbers: ShapeNumbers) -> Iterator[str]:
        """Yields the defects of cores and pods."""
        if numbers.pods < 2:
            yield f"fabric.pods = {numbers.pods}: a fat tree has at least 2; one pod alone is 'leaf-spine'"
        if numbers.cores < 1 or numbers.cores % numbers.spines:
            yield (
                f"fabric.cores = {numbers.cores}: must be a multiple of fabric.spines = {numbers.spines}, because each core "
                "is joined to one spine of every pod"
            )
        elif numbers.core_oversubscription <= 0:
            yield f"fabric.core_oversubscription = {numbers.core_oversubscription}: must be above 0"
        elif not LEAST_TC_RATE_BPS <= (rate_bps := self.core_rate_bps(numbers)) < MOST_TC_RATE_BPS:
            yield (
                f"fabric.core_oversubscription = {numbers.core_oversubscription:g}: makes uplinks of "
                f"{rate_bps:g} bit/s; tc shapes ports to {LEAST_TC_RATE_BPS:g} to {MOST_TC_RATE_BPS:g} bit/s"
            )

    def core_rate_bps(self, numbers: ShapeNumbers) -> float:
        """Line rate of each link between a spine and a core."""
        uplinks_bps = numbers.leaves * numbers.spines * self.uplink_rate_bps(numbers)
        return uplinks_bps / (numbers.cores * numbers.core_oversubscription)

    def several_summits(self, numbers: ShapeNumbers) -> list[str]:
        """The keys that would have to be 1 so that there is only one way between any two hosts."""
        return [*super().several_summits(numbers), *(["fabric.cores"] if numbers.cores > 1 else [])]

    def tree(self, numbers: ShapeNumbers) -> Tiers:
        """The leaves, spines and cores, and the links between them."""
        core_bps = self.core_rate_bps(numbers)
        return replace(super().tree(numbers), pods=numbers.pods, cores=numbers.cores, spine_uplink_bps=core_bps)

    def words(self, numbers: ShapeNumbers) -> str:
        """Describes what hosts are on."""
        return (
            f"on a fat tree of {numbers.pods} pods of {numbers.leaves} leaves and {numbers.spines} spines, and "
            f"{numbers.cores} cores; uplinks of leaves at {self.uplink_rate_bps(numbers) / 1e9:g} Gbit/s (oversubscription "
            f"{numbers.oversubscription:g}), of spines at "
            f"{self.core_rate_bps(numbers) / 1e9:g} Gbit/s (oversubscription {numbers.core_oversubscription:g})"
            f"{rails_in_words(numbers)}"
        )

    def short_words(self, oversubscription: float, core_oversubscription: float) -> str:
        """Describes it in titles."""
        return f", fat tree {oversubscription:g}:1, cores {core_oversubscription:g}:1"
