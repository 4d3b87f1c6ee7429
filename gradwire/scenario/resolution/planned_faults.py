"""Faults of a scenario as the machine carries them out: places found on the fabric, times in nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradwire.datatypes.records import PlannedFault
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.links import Port, link_names
from gradwire.scenario.sections.fault import FaultSection, name_defects

Workers = Mapping[str, int]
"""Number of workers of each of several jobs, in the order of the jobs; empty if there is one job."""
ONE_JOB: Workers = {}


def planned_faults(
    faults: Mapping[str, FaultSection], fabric: Fabric, of_jobs: Workers = ONE_JOB
) -> tuple[PlannedFault, ...]:
    """The faults as data for the machine. of_jobs: the workers of each of several jobs, which are numbered one job after the other.

    Raises InputFault for a link that does not exist.
    """
    return tuple(_planned(name, fault, fabric, of_jobs) for name, fault in faults.items())


def fault_defects(
    faults: Mapping[str, FaultSection], fabric: Fabric, workers: int, of_jobs: Workers = ONE_JOB
) -> list[str]:
    """Describes defects of faults on a fabric with this number of workers, one line each, with the key. of_jobs: the
    workers of several jobs."""
    lines = list(name_defects(faults))
    for name, fault in faults.items():
        lines += [f"fault.{name}.{line}" for line in _worker_defects(fault, workers, of_jobs)]
        lines += [f"fault.{name}.{line}" for line in _defects(fault, fabric)]
    return lines


def _worker_defects(fault: FaultSection, workers: int, of_jobs: Workers) -> Iterator[str]:
    if fault.worker is None:
        return
    jobs = ", ".join(of_jobs)
    if of_jobs and fault.job is None:
        yield f"job: missing; say whose worker it is: {jobs}"
        return
    if fault.job is not None and fault.job not in of_jobs:
        yield f"job = '{fault.job}': " + (f"jobs are {jobs}" if of_jobs else "the scenario has one job; leave it out")
        return
    most = workers if fault.job is None else of_jobs[fault.job]
    if fault.worker >= most:
        whose = "" if fault.job is None else f" of job {fault.job}"
        yield f"worker = {fault.worker}: workers{whose} are 0 to {most - 1}"


def _defects(fault: FaultSection, fabric: Fabric) -> Iterator[str]:
    if fault.switch is not None and fault.switch not in fabric.switch_names():
        yield f"switch = '{fault.switch}': switches are {', '.join(fabric.switch_names())}"
    for key, host in (("source", fault.source), ("destination", fault.destination)):
        if host is not None and host not in fabric.host_names():
            yield f"{key} = '{host}': hosts are h1 to h{fabric.hosts}"
    if fault.kind == "tenant" and fault.rate is not None and fault.rate > (line_bps := _source_bps(fault, fabric)):
        yield f"rate: must be at most the {line_bps / 1e9:g}gbit of a host's link"
    if fault.kind == "tenant" and (fabric.routing.policy.hashes_connections or fabric.controller):
        yield f"kind = 'tenant': not with fabric.routing = '{fabric.routing}', for which way its connection takes is not known beforehand"
    if fault.kind in ("controller-restart", "switch-restart") and fabric.controller:
        yield f"kind = '{fault.kind}': not with fabric.controller, whose flows could be other ones afterwards"
    if fault.link is None:
        return
    try:
        place = port_of(fabric, fault.link)
    except InputFault as wrong:
        yield str(wrong)
        return
    line_rate_bps = next(rate for port, rate in fabric.ports() if port.interface == place)
    if fault.rate is not None and fault.rate >= line_rate_bps:
        yield f"rate: must be below the {line_rate_bps / 1e9:g}gbit of link {fault.link}"


def _source_bps(fault: FaultSection, fabric: Fabric) -> float:
    """Line rate of the host that a tenant sends from."""
    hosts = fabric.host_names()
    return fabric.host_bps[hosts.index(fault.source)] if fault.source in hosts else fabric.rate_bps


def port_of(fabric: Fabric, link: str) -> str:
    """The port, as an interface name, at one end of the link that a host, a port or its two devices name.

    Raises InputFault if there is none.
    """
    names = {name: Port(name, 0).interface for name in fabric.endpoint_names()}
    wanted = names.get(link, link)
    if any(port.interface == wanted for port, _ in fabric.ports()):
        return wanted
    for named in fabric.links():
        if link in link_names(named, fabric.aliases):
            return named.a.interface
    raise InputFault(
        f"link = '{link}': no link is called that; links are named by a host (h1 to h{fabric.hosts}), "
        "by a port (h1-eth0, s1-eth1) or by two devices (h1-s1), as in fabric.link"
    )


def title_of_port(fabric: Fabric, interface: str) -> str:
    """The name of the link at a port, as users have it in scenarios (`link_title`)."""
    at_port = (link for link in fabric.links() if interface in (link.a.interface, link.b.interface))
    return fabric.link_title(next(at_port))


def _first_worker(job: str | None, of_jobs: Workers) -> int:
    """The number of a job's first worker among those of all jobs."""
    if job is None:
        return 0
    names = list(of_jobs)
    return sum(of_jobs[name] for name in names[: names.index(job)])


def _planned(name: str, fault: FaultSection, fabric: Fabric, of_jobs: Workers) -> PlannedFault:
    values = (fault.loss, fault.delay, fault.rate, fault.factor, fault.every)
    place = port_of(fabric, fault.link) if fault.link is not None else fault.switch or ""
    hosts = fabric.host_names()
    return PlannedFault(
        name=name,
        kind=fault.kind,
        at_ns=round(fault.at * 1e9),
        iteration=-1 if fault.iteration is None else fault.iteration,
        duration_ns=-1 if fault.duration is None else round(fault.duration * 1e9),
        place=place,
        worker=-1 if fault.worker is None else _first_worker(fault.job, of_jobs) + fault.worker,
        value=next((value for value in values if value is not None), 0.0),
        source=-1 if fault.source is None else hosts.index(fault.source),
        destination=-1 if fault.destination is None else hosts.index(fault.destination),
        job=fault.job or "",
        worker_of_job=-1 if fault.job is None or fault.worker is None else fault.worker,
        link="" if fault.link is None else title_of_port(fabric, place),
    )
