"""The switches of a fabric in tiers, and the links between them, as frozen data. Imports only the standard library.

Leaves have the hosts. Above them are spines, in one pod or in several; pods are joined by cores. Switches are numbered
leaves first, then spines, then cores, each pod by pod. What goes from one leaf to another goes up to one switch, its
summit, and down again: to a spine within a pod, and to a core from pod to pod. A core is joined to one spine of each
pod, so the summit alone decides the way, as in the fat tree of Al-Fares, Loukissas and Vahdat (A scalable, commodity
data center network architecture, SIGCOMM 2008). A summit is numbered from 0 at the first spine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property


@dataclass(frozen=True)
class Trunk:
    """A link between two switches, by their numbers; `rate_bps` is the line rate of each direction."""

    lower: int
    upper: int
    #: Numbers of the ports at its ends.
    lower_port: int
    upper_port: int
    rate_bps: float


@dataclass(frozen=True)
class Tier:
    """Parts of the network with the same uplinks: leaves, or pods."""

    #: What one part is: "leaf" or "pod".
    word: str
    #: Name of each part: the leaf's switch, or "pod 1".
    names: tuple[str, ...]
    #: Part of each switch; -1 for those above.
    part_of_switch: tuple[int, ...]
    #: Numbers of the trunks that lead up from each part.
    uplinks: tuple[tuple[int, ...], ...]
    #: Line rate of each of them.
    rates_bps: tuple[tuple[float, ...], ...]

    @property
    def slowest_bps(self) -> float:
        """Line rate of the slowest uplink of any part."""
        return min(min(rates) for rates in self.rates_bps)

    @property
    def fastest_bps(self) -> float:
        """Line rate of the fastest uplink of any part."""
        return max(max(rates) for rates in self.rates_bps)

    @cached_property
    def part_bps(self) -> tuple[float, ...]:
        """Line rate of all uplinks of each part together."""
        return tuple(
            len(rates) * rates[0] if min(rates) == max(rates) else math.fsum(rates) for rates in self.rates_bps
        )


@dataclass(frozen=True)
class Tiers:
    """Switches and trunks of a fabric whose hosts are at ports 1 to `hosts_per_leaf` of its leaves.

    On a leaf the ports towards spines come next. On a spine, ports towards leaves precede those towards cores. Port p
    + 1 of a core leads to pod p. A single switch is a leaf without spines, and leaf/spine is one pod without cores.
    """

    hosts_per_leaf: int
    pods: int = 1
    #: Leaves of one pod.
    leaves: int = 1
    #: Spines of one pod.
    spines: int = 0
    #: Cores of all pods together: a multiple of the spines of a pod.
    cores: int = 0
    #: Line rate of a trunk between leaf and spine.
    leaf_uplink_bps: float = 0.0
    #: Line rate of a trunk between spine and core.
    spine_uplink_bps: float = 0.0
    #: Line rate of each trunk, where they differ from these two.
    trunk_rates_bps: tuple[float, ...] = ()

    @property
    def leaf_count(self) -> int:
        """Returns the number of leaves in all pods."""
        return self.pods * self.leaves

    @property
    def spine_count(self) -> int:
        """Spines of all pods."""
        return self.pods * self.spines

    @property
    def switches(self) -> int:
        """Number of switches."""
        return self.leaf_count + self.spine_count + self.cores

    @property
    def cores_per_spine(self) -> int:
        """Uplinks of a spine."""
        return self.cores // self.spines if self.spines else 0

    def pod_of(self, switch: int) -> int:
        """Pod of a leaf or spine; -1 for a core."""
        if switch < self.leaf_count:
            return switch // self.leaves
        spine = switch - self.leaf_count
        return spine // self.spines if spine < self.spine_count else -1

    @cached_property
    def trunks(self) -> tuple[Trunk, ...]:
        """Leaf by leaf to its spines, then spine by spine to its cores."""
        trunks = (*self._leaf_trunks(), *self._spine_trunks())
        if not self.trunk_rates_bps:
            return trunks
        return tuple(
            replace(trunk, rate_bps=rate_bps) for trunk, rate_bps in zip(trunks, self.trunk_rates_bps, strict=True)
        )

    def _leaf_trunks(self) -> Iterator[Trunk]:
        for leaf in range(self.leaf_count):
            pod, place = divmod(leaf, self.leaves)
            for spine in range(self.spines):
                upper = self.leaf_count + pod * self.spines + spine
                yield Trunk(leaf, upper, self.hosts_per_leaf + spine + 1, place + 1, self.leaf_uplink_bps)

    def _spine_trunks(self) -> Iterator[Trunk]:
        first_core, each = self.leaf_count + self.spine_count, self.cores_per_spine
        for number in range(self.spine_count if self.cores else 0):
            pod, spine = divmod(number, self.spines)
            for place in range(each):
                core = first_core + spine * each + place
                yield Trunk(self.leaf_count + number, core, self.leaves + place + 1, pod + 1, self.spine_uplink_bps)

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """Returns the tiers of parts: leaves, if anything is above them, and pods, if there are several."""
        if not self.spines:
            return ()
        found = [self._tier("leaf", [f"s{leaf + 1}" for leaf in range(self.leaf_count)])]
        if self.cores:
            found.append(self._tier("pod", [f"pod {pod + 1}" for pod in range(self.pods)]))
        return tuple(found)

    def _tier(self, word: str, names: list[str]) -> Tier:
        below = self.leaf_count if word == "leaf" else self.leaf_count + self.spine_count
        part_of = [
            (switch if word == "leaf" else self.pod_of(switch)) if switch < below else -1
            for switch in range(self.switches)
        ]
        uplinks: list[list[int]] = [[] for _ in names]
        for number, trunk in enumerate(self.trunks):
            if part_of[trunk.lower] >= 0 and part_of[trunk.upper] < 0:
                uplinks[part_of[trunk.lower]].append(number)
        rates = tuple(tuple(self.trunks[number].rate_bps for number in numbers) for numbers in uplinks)
        return Tier(word, tuple(names), tuple(part_of), tuple(tuple(numbers) for numbers in uplinks), rates)

    def only_summit(self, near: int, far: int) -> int | None:
        """The summit between two switches where there is no choice: one of them is above the leaves, or there is one
        way."""
        highest = max(near, far)
        if highest >= self.leaf_count:
            return highest - self.leaf_count
        if self.pod_of(near) == self.pod_of(far):
            return self.pod_of(near) * self.spines if self.spines == 1 else None
        return self.spine_count if self.cores == 1 else None

    def summit(self, near: int, far: int, choice: int) -> int:
        """The summit between two leaves that a number chooses: consecutive numbers take the spines of a pod in turn."""
        if self.pod_of(near) == self.pod_of(far):
            return self.pod_of(near) * self.spines + choice % self.spines
        spine, place = choice % self.spines, choice // self.spines % self.cores_per_spine
        return self.spine_count + spine * self.cores_per_spine + place

    def climb(self, switch: int, summit: int) -> list[int]:
        """Numbers of the trunks from a switch up to a summit above it; none if it is the summit itself."""
        top = self.leaf_count + summit
        if switch >= top:
            return []
        core = summit - self.spine_count
        first = [] if switch >= self.leaf_count else [switch * self.spines + self._spine_below(summit)]
        if core < 0:
            return first
        spine = self.pod_of(switch) * self.spines + core // self.cores_per_spine
        return [*first, self.leaf_count * self.spines + spine * self.cores_per_spine + core % self.cores_per_spine]

    def _spine_below(self, summit: int) -> int:
        """Returns the number of a pod's spine that leads to a summit."""
        core = summit - self.spine_count
        return summit % self.spines if core < 0 else core // self.cores_per_spine

    def between(self, near: int, far: Iterable[int], summit: int) -> tuple[list[int], list[int]]:
        """The trunks that a packet goes up from switch `near`, and those that its copies go down to the switches
        `far`, each once.

        A copy for a switch below the way up leaves it there, and not at the summit.
        """
        up = self.climb(near, summit)
        passed = {near, *(self.trunks[number].upper for number in up)}
        down: dict[int, None] = {}
        for switch in far:
            for number in self.climb(switch, summit):
                down[number] = None
                if self.trunks[number].upper in passed:
                    break
        return up, list(down)
