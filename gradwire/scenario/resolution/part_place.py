"""Finds the hosts that are the part of a job that runs by packets, and refuses what cannot run in part. Pure."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.schema import PointSection
from gradwire.scenario.sections.part import RANGE


def part_defects(section: PointSection, fabric: Fabric) -> list[str]:
    """A line for each thing that a point in part cannot have, or that is wrong with its part; none for a whole one."""
    if section.part is None:
        return []
    lines = [f"part: leave out {what}" for what in _others(section)]
    if not fabric.topology.structure.has_parts:
        lines.append(
            f"fabric.topology = '{fabric.topology}': a part of a job has hosts on one switch or on leaves; use 'single' or "
            "'leaf-spine', or leave out [part]"
        )
    elif section.part.copies is not None and fabric.tree.tiers:
        lines.append(
            "part.copies: is on one switch, since copies at several leaves share uplinks with others; use fabric.topology = "
            "'single', or name hosts (part.hosts)"
        )
    if section.part.copies is not None and section.fabric.loss:
        lines.append(
            "fabric.loss: what any of the copies loses holds up all of them, and most are not there; leave out it or part.copies"
        )
    if fabric.rails:
        lines.append("fabric.rails = true: a part's hosts are at leaves of all rails; leave out it or [part]")
    if not lines and section.part.copies is None:
        try:
            hosts_of_part(section, fabric)
        except InputFault as fault:
            lines += str(fault).splitlines()
    return lines


def _others(section: PointSection) -> list[str]:
    wanted = section.fabric
    found = {
        "[program], which would run on hosts that are not there": section.program,
        "[fault], whose hosts would be those of the whole": section.fault,
        "[job], or run each job whole": section.job,
        "fabric.link: its links are those of the whole": wanted.link,
        "fabric.host: its hosts are those of the whole": wanted.host,
        "fabric.controller, which knows the whole network": wanted.controller,
        "fabric.routing, or make it 'balanced' or 'ecmp'": not wanted.routing.policy.works_in_part,
        "cluster.stands_for: a part is of a job whose ranks are all estimated": section.cluster.stands_for,
    }
    return [words for words, is_there in found.items() if is_there]


def hosts_of_part(section: PointSection, fabric: Fabric) -> tuple[int, ...]:
    """The hosts of the part, by index in the whole network. Raises InputFault for hosts that do not exist, or are not
    whole machines."""
    part = section.part
    assert part is not None
    nics = section.cluster.nics_per_host
    if part.leaf is not None:
        leaves = fabric.hosts_of_leaves
        said = f"part.leaf = {part.leaf}"
        if not fabric.tree.tiers:
            raise InputFault(
                f'{said}: fabric.topology = "{fabric.topology}" has no leaves; name the first and last of the hosts'
            )
        if part.leaf > len(leaves):
            raise InputFault(f"{said}: the network has {len(leaves)} leaves")
        hosts = leaves[part.leaf - 1]
    else:
        said = f'part.hosts = "{part.hosts}"'
        found = RANGE.fullmatch(part.hosts or "")
        assert found is not None
        first, last = (int(number) for number in found.groups())
        if not first <= last <= fabric.hosts:
            raise InputFault(f"{said}: hosts are h1 to h{fabric.hosts}, and the first comes first")
        hosts = tuple(range(first - 1, last))
    if len(hosts) >= fabric.hosts:
        raise InputFault(f"{said}: is the whole network; leave out [part]")
    if hosts[0] % nics or len(hosts) % nics:
        raise InputFault(f"{said}: machines have {nics} NICs, which are hosts of the network: take whole machines")
    return hosts
