"""Checks that what else a point has fits its network: programs, faults, and a congestion control that needs distances. Pure."""

from __future__ import annotations

from gradwire.network.fabric import Fabric
from gradwire.network.path_delays import longest_round_trip_s
from gradwire.scenario.resolution.planned_faults import ONE_JOB, Workers, fault_defects
from gradwire.scenario.schema import PointSection
from gradwire.scenario.sections.program import program_defects


def network_defects(section: PointSection, fabric: Fabric, workers: int, of_jobs: Workers = ONE_JOB) -> list[str]:
    """Describes settings that do not fit the point's network, one line each. workers: of the only job; of_jobs: of several."""
    lines = program_defects(section.program, fabric.host_names(), fabric.classes)
    if section.transport.congestion == "nscc" and not longest_round_trip_s(fabric, ()):
        lines.append(
            "transport.congestion = 'nscc': its windows follow from what a round trip holds, and no link has a delay: set fabric.delay, "
            'such as "1us"'
        )
    return lines + fault_defects(section.fault, fabric, workers, of_jobs)
