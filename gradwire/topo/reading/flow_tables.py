"""Reads the flows and groups of a switch as Open vSwitch has them."""

from __future__ import annotations

import re

from gradwire.topo.command import run
from gradwire.topo.reading.counters import parse_table_misses
from gradwire.topo.wiring import asked_of_switches

OPENFLOW = ("-O", "OpenFlow13")


def dumped_tables(bridge: str) -> tuple[str, str]:
    """What dump-flows and dump-groups print of a bridge. Raises MachineFault if the bridge does not answer."""
    flows = run(asked_of_switches("ovs-ofctl", *OPENFLOW, "--no-names", "--no-stats", "dump-flows", bridge))
    return flows, run(asked_of_switches("ovs-ofctl", *OPENFLOW, "--no-names", "dump-groups", bridge))


def table_misses(bridge: str, *, has_own_rules: bool) -> int:
    """Packets that no rule of a bridge was meant for. Raises MachineFault if the bridge does not answer.

    has_own_rules: whether its rules are those of a user's controller, which need have none for what matches
    nothing else. Then those count that matched nothing, and those that a flow without any field to match took.
    """
    flows = run(asked_of_switches("ovs-ofctl", *OPENFLOW, "--no-names", "dump-flows", bridge))
    if not has_own_rules:
        return parse_table_misses(flows)
    return unmatched(flows, run(asked_of_switches("ovs-ofctl", *OPENFLOW, "dump-tables", bridge)))


def unmatched(flows: str, tables: str) -> int:
    """The same, out of what dump-flows and dump-tables print."""
    looked_up = sum(
        int(lookup) - int(matched) for lookup, matched in re.findall(r"lookup=(\d+), matched=(\d+)", tables)
    )
    to_nothing = re.findall(r"n_packets=(\d+)[^\n]*priority=0 actions=(?:drop|CONTROLLER)", flows)
    return looked_up + sum(map(int, to_nothing))
