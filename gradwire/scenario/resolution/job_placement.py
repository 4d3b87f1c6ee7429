"""Chooses the hosts that each of several jobs runs on, and limits the workers that a plan with all ranks may have.
Pure."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.sections.job import JobPlace
from gradwire.workloads.fields import MOST_WORKERS
from gradwire.workloads.job import Cluster

LARGEST_BY_NAME = 64
"""Hosts that a network is given because a list names one of them. A name beyond, with a digit too many perhaps, is of no host, unless
jobs need half as many."""


def hosts_needed(places: Mapping[str, JobPlace], needs: Mapping[str, int], others: Iterable[str] = ()) -> int:
    """Number of hosts of a network that is made for the jobs: as many as they need, or up to the last one that a list
    names.

    others: names of hosts that programs and tenants have.
    """
    names = [*(host for place in places.values() for host in place.hosts), *others]
    named = [int(host[1:]) for host in names if host[:1] == "h" and host[1:].isdecimal()]
    most = max(2 * sum(needs.values()), LARGEST_BY_NAME)
    return max([sum(needs.values()), *(number for number in named if number <= most)])


def placed(
    places: Mapping[str, JobPlace], needs: Mapping[str, int], fabric: Fabric, seed: int
) -> dict[str, tuple[int, ...]]:
    """The hosts of each job, by index in the network. Lists go first; all other jobs take the hosts that are left, in
    their order.

    needs: hosts of each job. Raises InputFault with a line for each host that does not exist or that two jobs want, and for each job that
    finds too few.
    """
    numbers = {name: number for number, name in enumerate(fabric.host_names())}
    owner: dict[str, str] = {}
    lines = [line for name, place in places.items() for line in _list_defects(name, place, needs[name], numbers, owner)]
    if lines:
        raise InputFault("\n".join(lines))
    hosts_of = {name: tuple(numbers[host] for host in place.hosts) for name, place in places.items() if place.hosts}
    free = [number for name, number in numbers.items() if name not in owner]
    for name, place in places.items():
        if place.hosts:
            continue
        if len(free) < needs[name]:
            raise InputFault(
                f"job.{name}: needs {needs[name]} hosts, and {len(free)} of the network's {fabric.hosts} are left; use fewer workers or "
                "servers, or a larger network"
            )
        chosen = _chosen(free, needs[name], place.placement, fabric, f"{seed}/placement/{name}")
        hosts_of[name] = tuple(chosen)
        free = [number for number in free if number not in chosen]
    return {name: hosts_of[name] for name in places}


def _list_defects(
    name: str, place: JobPlace, need: int, numbers: Mapping[str, int], owner: dict[str, str]
) -> list[str]:
    """Describes defects of a job's list of hosts, one line each. Adds the hosts that the job owns to `owner`."""
    if not place.hosts:
        return []
    first, *_, last = (*numbers, *numbers)
    lines = [
        f"job.{name}.hosts: no host is called {host!r}; hosts are {first} to {last}"
        for host in place.hosts
        if host not in numbers
    ]
    for host in place.hosts:
        if host in owner:
            whose = "it is listed twice" if owner[host] == name else f"job '{owner[host]}' has it"
            lines.append(f"job.{name}.hosts: {host}: {whose}; a host is one job's, and each is listed once")
        owner.setdefault(host, name)
    if len(place.hosts) != need:
        lines.append(f"job.{name}.hosts: has {len(place.hosts)} hosts, and the job needs {need}")
    return lines


def _chosen(free: Sequence[int], need: int, placement: str, fabric: Fabric, seed: str) -> list[int]:
    if placement == "random":
        return random.Random(seed).sample(free, need)
    if placement == "spread":
        of_leaves = [[host for host in hosts if host in free] for hosts in fabric.hosts_of_leaves]
        in_turn = itertools.chain.from_iterable(itertools.zip_longest(*of_leaves))
        free = [host for host in in_turn if host is not None]
    return list(free[:need])


def refuse_thousands(cluster: Cluster) -> None:
    """Raises InputFault for more workers than a plan with an op for each of them can have."""
    if cluster.workers > MOST_WORKERS:
        raise InputFault(
            f"cluster.workers = {cluster.workers}: a plan with all ranks, which runs need, has at most {MOST_WORKERS:,} workers: "
            "`gradwire estimate` answers for more (docs/thousands.md), and cluster.stands_for lets a few run for all"
        )
