"""`fabric.topology = "single"`: one switch for all hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gradwire.network.shape_numbers import ShapeNumbers
from gradwire.network.structures.structure import Structure, nic_defects
from gradwire.network.tiers import Tiers


class SingleSwitch(Structure):
    """A leaf without anything above it."""

    name = "single"
    keys = ()
    has_several_switches = False
    can_aggregate = True
    has_parts = True

    def defects(self, numbers: ShapeNumbers) -> Iterator[str]:
        """Yields the reasons why there is no such network."""
        yield from nic_defects(numbers)

    def tree(self, numbers: ShapeNumbers) -> Tiers:
        """Returns one switch, without links."""
        return Tiers(numbers.hosts)

    def summits(self, _numbers: ShapeNumbers) -> int:
        """Returns 0: there is one leaf."""
        return 0

    def words(self, _numbers: ShapeNumbers) -> str:
        """Describes what hosts are on."""
        return "on one switch"

    def short_words(self, _oversubscription: float, _core_oversubscription: float) -> str:
        """Returns "": whoever says nothing of switches has one."""
        return ""

    def aliases(
        self, _numbers: ShapeNumbers, _hosts: Sequence[str], _switches: Sequence[str]
    ) -> Mapping[str, tuple[str, ...]]:
        """Returns no names: the switch is no leaf."""
        return {}
