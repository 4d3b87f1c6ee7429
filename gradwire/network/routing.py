"""The rules by which switches choose ways, by their names in scenarios and in the records of runs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from gradwire.network.policies.adaptive import Adaptive
from gradwire.network.policies.balanced import Balanced
from gradwire.network.policies.controller import OwnController
from gradwire.network.policies.ecmp import EqualCostMultipath
from gradwire.network.policies.flowlet import Flowlet
from gradwire.network.policies.policy import RoutingPolicy
from gradwire.network.policies.spray import Spray
from gradwire.network.policies.static import Static


class Routing(StrEnum):
    """The rules by which switches choose among equally short ways."""

    BALANCED = Balanced.name
    ECMP = EqualCostMultipath.name
    STATIC = Static.name
    SPRAY = Spray.name
    FLOWLET = Flowlet.name
    ADAPTIVE = Adaptive.name
    CONTROLLER = OwnController.name

    @property
    def policy(self) -> RoutingPolicy:
        """What these rules say of themselves."""
        return POLICIES[self]


POLICIES: Mapping[str, RoutingPolicy] = {
    each.name: each
    for each in (Balanced(), EqualCostMultipath(), Static(), Spray(), Flowlet(), Adaptive(), OwnController())
}
"""The policies by name."""
