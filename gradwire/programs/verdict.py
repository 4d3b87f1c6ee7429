"""Checks that the network carried programs' traffic as it should: those that need no plan to compare with. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.analysis.verdict.checks import Check
from gradwire.analysis.verdict.network_checks import NetworkState, faults_check, network_checks
from gradwire.datatypes.records import PlannedFault
from gradwire.inside.program_protocol import Report
from gradwire.network.fabric import Fabric

CARRIED = "the network carried all that it was given"


def checks(report: Report, fabric: Fabric, faults: Sequence[PlannedFault] = ()) -> list[Check]:
    """Every check of a run of programs that concerns the network."""
    state = NetworkState(fabric, report.counts, report.host_parameters, report.pauses, faults)
    ended_ns = round(report.duration_s * 1e9)
    happened = [faults_check(state, report.faults, ended_ns, "all programs had ended")] if faults else []
    return [*network_checks(state), *happened]
