"""The spine or core that a message takes through a fabric, by the controller's rules, and the lines that a plan loads there."""

from __future__ import annotations

from functools import cached_property

from gradwire.analysis.link_loads import LoadedLine, has_choices, loaded_lines
from gradwire.controller.rules import SwitchRules
from gradwire.controller.switch_flows import SummitChoice, switch_rules, trace_group
from gradwire.datatypes.plan import Plan
from gradwire.inside.point_protocol import built_fabric
from gradwire.network.fabric import Fabric, MulticastGroup, dscp_of_band


class Spines:
    """Finds the summits of ways (network/tiers.py) in a fabric with all its multicast groups."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def spine_of(self, source: int, target: int, members: tuple[int, ...]) -> int | None:
        """The summit of messages between two endpoints, or of a multicast to `members`
        (SummitOf of network/routes.py)."""
        if not members:
            return self._choice(source, target)
        group = self._fabric.groups.index(MulticastGroup(source, members))
        spines = self._fabric.spine_names()
        hops = trace_group(self._fabric, self._rules, group, dscp_of_band(1))
        return max((spines.index(hop.switch) for hop in hops if hop.switch in spines), default=None)

    @cached_property
    def _choice(self) -> SummitChoice:
        return SummitChoice(self._fabric)

    @cached_property
    def _rules(self) -> list[SwitchRules]:
        return switch_rules(self._fabric)


def find_loaded_lines(plan: Plan, fabric: Fabric) -> list[LoadedLine]:
    """The lines between switches that a plan loads, those that are busy longest first; none where packets have no choice of ways, and none
    before a run whose controller is the user's own."""
    if not has_choices(fabric) or (fabric.controller and not fabric.ways):
        return []
    built = built_fabric(fabric, [plan])
    return loaded_lines(plan, built, Spines(built).spine_of)
