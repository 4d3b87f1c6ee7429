"""`fabric.topology = "leaf-spine"`: leaves with hosts, each joined to every spine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from gradwire.network.shape_numbers import ShapeNumbers
from gradwire.network.structures.structure import Structure, nic_defects
from gradwire.network.tiers import Tiers

MOST_TRUNKS = 2**14
"""Links between switches. A k-ary fat tree with 1,024 hosts has 2,048. Each takes Open vSwitch and its controller
milliseconds; to write a network with 2^20 of them down takes minutes and gigabytes."""
LEAST_TC_RATE_BPS, MOST_TC_RATE_BPS = 8.0, 2.0**63
"""tc counts rates in whole bytes per second, in 64 bits."""


class LeafSpine(Structure):
    """One pod without cores."""

    name = "leaf-spine"
    keys: Sequence[str] = ("leaves", "spines", "oversubscription", "rails")
    can_aggregate = True
    has_parts = True
    #: How errors call what the numbers of leaves and spines are of, behind their names.
    of_pod: ClassVar[str] = ""

    def defects(self, numbers: ShapeNumbers) -> Iterator[str]:
        """Yields the reasons why there is no such network, a line each."""
        if found := [*nic_defects(numbers)]:
            yield from found
            return
        if numbers.leaves < 1 or numbers.spines < 1:
            yield f"fabric.topology = '{self.name}' needs leaves and spines{self.of_pod} of at least 1"
            return
        trunks = numbers.pods * numbers.leaves * numbers.spines + numbers.pods * numbers.cores
        if trunks > MOST_TRUNKS:
            yield (
                f"fabric.spines = {numbers.spines}: makes {trunks:,} links between switches; must be at most "
                f"{MOST_TRUNKS:,}"
            )
            return
        yield from self.core_defects(numbers)
        if numbers.hosts % (numbers.pods * numbers.leaves):
            pods = f"fabric.pods = {numbers.pods} and " if self.of_pod else ""
            ends = "NICs" if numbers.nics_per_host > 1 else "hosts"
            yield f"{pods}fabric.leaves = {numbers.leaves}: must divide the {numbers.hosts} {ends}"
        elif numbers.nics_per_host > 1:
            yield from self._rail_defects(numbers)
        if numbers.oversubscription <= 0:
            yield f"fabric.oversubscription = {numbers.oversubscription}: must be above 0"
        elif numbers.hosts < numbers.pods * numbers.leaves:
            return  # leaves without hosts would have uplinks without a rate
        elif not LEAST_TC_RATE_BPS <= (rate_bps := self.uplink_rate_bps(numbers)) < MOST_TC_RATE_BPS:
            yield (
                f"fabric.oversubscription = {numbers.oversubscription:g}: makes uplinks of {rate_bps:g} "
                f"bit/s; tc shapes ports to {LEAST_TC_RATE_BPS:g} to {MOST_TC_RATE_BPS:g} bit/s"
            )

    def core_defects(self, _numbers: ShapeNumbers) -> Iterator[str]:
        """Yields the defects of cores and pods, where there are any."""
        yield from ()

    def _rail_defects(self, numbers: ShapeNumbers) -> Iterator[str]:
        if numbers.rails and numbers.leaves % numbers.nics_per_host:
            yield (
                f"fabric.rails = true: every NIC of a host is at another leaf, so fabric.leaves = {numbers.leaves} must "
                f"be a multiple of cluster.nics_per_host = {numbers.nics_per_host}"
            )
        hosts_per_leaf = self.hosts_per_leaf(numbers)
        if not numbers.rails and hosts_per_leaf % numbers.nics_per_host:
            yield (
                f"fabric.leaves = {numbers.leaves}: a leaf has {hosts_per_leaf} ports for NICs, not a multiple of "
                f"cluster.nics_per_host = {numbers.nics_per_host}, and all NICs of a host are at one leaf; fabric.rails "
                "= true spreads them"
            )

    def hosts_per_leaf(self, numbers: ShapeNumbers) -> int:
        """Hosts on each leaf."""
        return numbers.hosts // (numbers.pods * numbers.leaves)

    def uplink_rate_bps(self, numbers: ShapeNumbers) -> float:
        """Line rate of each link between a leaf and a spine."""
        return self.hosts_per_leaf(numbers) * numbers.rate_bps / (numbers.spines * numbers.oversubscription)

    def summits(self, numbers: ShapeNumbers) -> int:
        """Returns the ways between two leaves, in different pods where there are several."""
        return max(numbers.spines, numbers.cores)

    def several_summits(self, numbers: ShapeNumbers) -> list[str]:
        """The keys that would have to be 1 so that there is only one way between any two hosts."""
        return ["fabric.spines"] if numbers.spines > 1 else []

    def tree(self, numbers: ShapeNumbers) -> Tiers:
        """The leaves and spines, and the links between them."""
        uplink_bps = self.uplink_rate_bps(numbers)
        return Tiers(self.hosts_per_leaf(numbers), 1, numbers.leaves, numbers.spines, leaf_uplink_bps=uplink_bps)

    def place_of(self, numbers: ShapeNumbers, host: int) -> tuple[int, int]:
        """Index of the leaf that a host is on, and the number of the port there."""
        if not numbers.rails:
            return super().place_of(numbers, host)
        machine, rail = divmod(host, numbers.nics_per_host)
        block, place = divmod(machine, self.hosts_per_leaf(numbers))
        return block * numbers.nics_per_host + rail, place + 1

    def words(self, numbers: ShapeNumbers) -> str:
        """Describes what hosts are on."""
        return (
            f"on leaf/spine {numbers.leaves} x {numbers.spines}, uplinks at {self.uplink_rate_bps(numbers) / 1e9:g} Gbit/s "
            f"(oversubscription {numbers.oversubscription:g}){rails_in_words(numbers)}"
        )

    def short_words(self, oversubscription: float, _core_oversubscription: float) -> str:
        """Describes it in titles."""
        return f", leaf/spine {oversubscription:g}:1"


def rails_in_words(numbers: ShapeNumbers) -> str:
    """Describes the rails, behind a comma; "" if there are none."""
    return f", NICs on {numbers.nics_per_host} rails" if numbers.rails else ""
