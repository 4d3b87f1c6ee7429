"""Waits for the flows of a user's controller, inside the machine, and follows all pairs of hosts through
them."""

from __future__ import annotations

import time

from gradwire.controller.dumped_flows import flows_in, groups_in
from gradwire.controller.followed_flows import SwitchFlows, follow
from gradwire.controller.process import ControllerProcess
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.topo.counters import dumped_tables
from gradwire.topo.network import Network

POLL_S = 0.25
STABLE_S = 1.0
"""How long complete flows must have stayed as they are: an application that corrects itself does so soon."""
GIVEN_UP_S = 10.0
"""How long incomplete flows may stay as they are. By the virtual clock an application computes in no time, so this is
idle waiting."""
MOST_S = 120.0
"""How long flows may change."""
MOST_SHOWN = 5
MOST_LOG_LETTERS = 1500
Tables = dict[str, tuple[str, str]]


def await_ways(fabric: Fabric, network: Network, controller: ControllerProcess) -> tuple[tuple[int, ...], ...]:
    """The ways of all pairs of hosts (Fabric.ways), once the flows of all switches say them and no longer change.

    Raises InputFault if the application ends, if its flows leave a pair of hosts without a way or keep changing.
    """
    begun_s = changed_s = time.monotonic()
    before: Tables = {}
    defects: tuple[str, ...] = ()
    while True:
        controller.check_alive()
        tables = {name: dumped_tables(network.naming.device(name)) for name in fabric.switch_names()}
        now_s = time.monotonic()
        if tables != before:
            before, changed_s = tables, now_s
            ways, defects = _followed(fabric, tables)
        if now_s - changed_s >= (GIVEN_UP_S if defects else STABLE_S):
            break
        if now_s - begun_s > MOST_S:
            raise InputFault(
                f"fabric.controller: flows still change {MOST_S:.0f} s after the application started; it must install them once"
            )
        time.sleep(POLL_S)
    if defects:
        raise InputFault(_in_words(defects, controller.log_tail()))
    return ways


def _followed(fabric: Fabric, tables: Tables) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    switches = {}
    for name, (flows, groups) in tables.items():
        try:
            switches[name] = SwitchFlows(tuple(flows_in(flows)), groups_in(groups))
        except InputFault as fault:
            return (), (f"at {name}: {fault}",)
    found = follow(fabric, switches)
    return found.ways, found.defects


def _in_words(defects: tuple[str, ...], log: str) -> str:
    lines = [f"fabric.controller: {line}" for line in defects[:MOST_SHOWN]]
    if len(defects) > MOST_SHOWN:
        lines.append(f"fabric.controller: and {len(defects) - MOST_SHOWN:,} more pairs of hosts have no way")
    if "Traceback" in log:
        lines.append(f"The application wrote: {log[-MOST_LOG_LETTERS:]}")
    return "\n".join(lines)
