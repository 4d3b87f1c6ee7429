"""Ways of bursts that take all shortest ways in turn (`fabric.routing = "spray"`). Pure; imports only frozen data.

A host's port writes the number of a way into the source's MAC address of each burst (topo/tc.py), and switches go
by it where they have a choice (controller/sprayed_flows.py). Nobody else looks at that address. The number comes from
the burst's IP identification, which Linux counts up by a connection's segments (`ip_select_ident_segs`): its bits from
`chunk_bits` on count chunks of at least a full burst, so that the chunks of each connection take the ways in turn.

What a way is follows from its number and the destination alone: where a switch has k ports that begin a shortest way,
it reads one digit of the number, of base k. The digits that are read by the switches of a way, from the source on, are
different ones, as those of a number whose bases are mixed. So each switch spreads what comes to it evenly over its
ports, whatever the network is. In tiers, ways are the spines, or the spines and then the cores.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

from gradwire.network.balanced_routes import stable_hash
from gradwire.network.frame_sizes import ETHERNET_HEADER_BYTES
from gradwire.network.hashed_routes import Exit, HashedRoutes
from gradwire.network.routed_network import RoutedNetwork

MOST_SPRAYED_WAYS = 64
"""Over which bursts are spread: as many rules for each destination at a leaf."""
IDENTIFICATION_BITS = 16
SPRAYED_GSO_BYTES = 12_288
"""Largest burst by default: 8 segments at MTU 1500, besides what Linux keeps for headers, and so a chunk to the byte.
All-to-all of 64 KiB among 16 hosts at 100 Gbit/s, 4 leaves and 4 spines, took 1.33 times the time of an ideal network
with 32 segments, 1.16 with 8 and 1.10 with one, as on one switch; processor time of the run was 12.1, 13 and 16.2 s."""
EVEN_TURNS = 64
"""Turns for each way, where the number of ways is not a power of 2: one more or less makes no difference of 2 %."""
GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, are spread evenly from the first ones on (Knuth, The Art of Computer Programming, 6.4)."""


class SprayedRoutes:
    """The ways through a fabric, by their numbers."""

    def __init__(self, fabric: RoutedNetwork) -> None:
        self._fabric, self._equal = fabric, HashedRoutes(fabric)
        self._ends = sorted({fabric.switch_of(host) for host in range(fabric.hosts)})
        #: By switch and destination's switch: the number that a way's number is divided by before the digit is read.
        self._strides: dict[tuple[int, int], int] = {}
        #: By the switches of two hosts: the lines between them, with the shares of ways that pass each.
        self._shares: dict[tuple[int, int], list[tuple[int, float]]] = {}
        exact = math.lcm(*(self._read(target) for target in self._ends))
        #: How many numbers there are. With fewer than all combinations have, some digits stay the same.
        self.ways = min(exact, MOST_SPRAYED_WAYS)

    @staticmethod
    @lru_cache(maxsize=8)
    def of(fabric: RoutedNetwork) -> SprayedRoutes:
        """The ways through a fabric."""
        return SprayedRoutes(fabric)

    def exits(self, switch: int, endpoint: int) -> tuple[Exit, ...]:
        """The ports of a switch that begin a shortest way towards an endpoint of another one."""
        return self._equal.exits_to(switch, endpoint)

    def exit(self, switch: int, endpoint: int, way: int) -> Exit:
        """Returns the one of the exits by which bursts that take a way leave a switch."""
        exits, target = self.exits(switch, endpoint), self._fabric.switch_of(endpoint)
        digit = way // self._strides.get((switch, target), 1)
        # Digits that have no room are 0 everywhere, and so are turned by the destination in graphs.
        first = 0 if self._fabric.is_tiered else stable_hash(self._fabric.seed, "spray", switch, target)
        return exits[(first + digit) % len(exits)]

    def path(self, source: int, target: int, way: int) -> list[int]:
        """The lines from one host to another (network/routes.py) by the way of this number."""
        hosts, trunks = self._fabric.hosts, len(self._fabric.trunk_links())
        here, far, between = self._fabric.switch_of(source), self._fabric.switch_of(target), list[int]()
        while here != far:
            taken = self.exit(here, target, way)
            between.append(2 * hosts + taken.trunk + (0 if taken.is_up else trunks))
            here = taken.far
        return [source, *between, hosts + target]

    def shares(self, source: int, target: int) -> list[tuple[int, float]]:
        """The lines of all ways from one host to another, from the source on, each with the share of the ways that pass
        it."""
        hosts, ends = self._fabric.hosts, (self._fabric.switch_of(source), self._fabric.switch_of(target))
        if ends not in self._shares:
            # All ways are shortest, so a line has the same place on each of them.
            places = Counter(
                (place, line)
                for way in range(self.ways)
                for place, line in enumerate(self.path(source, target, way)[1:-1])
            )
            self._shares[ends] = [(line, places[place, line] / self.ways) for place, line in sorted(places)]
        return [(source, 1.0), *self._shares[ends], (hosts + target, 1.0)]

    def _read(self, target: int) -> int:
        """Gives each switch on ways from hosts to a switch its digit; the product of what the digits need."""
        passed = {switch: self._distance(switch, target) for switch in self._ends}
        waiting = [switch for switch in self._ends if switch != target]
        for switch in waiting:
            for each in self._equal.exits(switch, target):
                if each.far not in passed:
                    passed[each.far] = passed[switch] - 1
                    waiting.append(each.far)
        strides, needed = dict.fromkeys(passed, 1), 1
        for switch in sorted(passed, key=lambda each: -passed[each]):
            exits = self._equal.exits(switch, target)
            following = strides[switch] * max(1, len(exits))
            needed = math.lcm(needed, following)
            for each in exits:
                strides[each.far] = math.lcm(strides[each.far], following)
            self._strides[switch, target] = strides[switch]
        return needed

    def _distance(self, switch: int, target: int) -> int:
        """Links between two switches on a shortest way."""
        count = 0
        while switch != target:
            switch, count = self._equal.exits(switch, target)[0].far, count + 1
        return count


def ways_of(fabric: RoutedNetwork) -> int:
    """Returns how many numbers of ways a fabric has."""
    return SprayedRoutes.of(fabric).ways


def turns_of(fabric: RoutedNetwork) -> int:
    """Returns how many values the part of the IP identification has that gives the way (`way_of_turn`)."""
    ways = ways_of(fabric)
    room = 1 << IDENTIFICATION_BITS - chunk_bits(fabric)
    exact = 1 << (ways - 1).bit_length()
    return exact if exact == ways else min(room, exact * EVEN_TURNS)


def way_of_turn(fabric: RoutedNetwork, turn: int) -> int:
    """The way for which a value of this part stands. In tiers, neighbours of a leaf come one after the other; in graphs,
    numbers are spread, so that every digit of them changes soon, and not the first alone."""
    ways = ways_of(fabric)
    return turn * (1 if fabric.is_tiered else _step(ways)) % ways


def _step(ways: int) -> int:
    """A number near this share of the ways that has no divisor in common with them, so that its multiples are all."""
    wanted = round(ways * GOLDEN)
    return min((step for step in range(1, ways + 1) if math.gcd(step, ways) == 1), key=lambda step: abs(step - wanted))


def chunk_bits(fabric: RoutedNetwork) -> int:
    """Returns how many bits count the segments of a chunk, which is the shortest power of 2 that holds a burst."""
    return (max(1, fabric.gso_bytes // fabric.mss_bytes()) - 1).bit_length()


def chunk_bytes(fabric: RoutedNetwork) -> int:
    """Frames of a chunk: what of a connection goes one way before the next one has its turn."""
    return (fabric.mtu_bytes + ETHERNET_HEADER_BYTES) << chunk_bits(fabric)


def way_mac(way: int) -> str:
    """The source's MAC address of bursts that take a way; no host has it (`Fabric.host_mac`)."""
    return f"06:00:00:00:00:{way:02x}"
