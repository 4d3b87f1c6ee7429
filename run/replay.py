"""Replays several plans one after the other on one machine and one fabric: what calibration and experiments of one's own need.

`replay_plans` boots a machine that runs this module (`python -m gradwire.run.replay FOLDER`) and brings the logs out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gradwire.agents.connections import SocketOptions
from gradwire.agents.records import NetworkCounts, OpLog
from gradwire.faults import MachineFault
from gradwire.run.point import Reading, bench, fabric_for, run_inside, say
from gradwire.topo.fabric import Fabric
from gradwire.vm.machines import Clock, run_job
from gradwire.workloads.plan import Plan
from gradwire.workloads.scaling import scaled_fabric, scaled_plan
from gradwire.workloads.scenario.schema import TransportSection

TIME_LIMIT_S = 1800.0
DEFAULTS = TransportSection()
DEFAULT_SOCKETS = SocketOptions(DEFAULTS.buffer, DEFAULTS.unsent)


@dataclass(frozen=True)
class Replayed:
    """A replayed plan. plan: as it was replayed, scaled on the wall clock.

    repairs: multicast datagrams sent again. counts: the network's counters, if they were asked for.
    """

    plan: Plan
    fabric: Fabric
    log: OpLog
    repairs: int = 0
    counts: NetworkCounts | None = None


def replay_plans(
    plans: Mapping[str, Plan],
    fabric: Fabric,
    iterations: int,
    *,
    clock: Clock | None = None,
    sockets: SocketOptions = DEFAULT_SOCKETS,
    count: bool = False,
    on_plan: Callable[[str], None] = lambda _: None,
) -> dict[str, Replayed]:
    """Replays each plan for `iterations`; `on_plan` hears the name of each that is done. Raises a Fault of the machine.

    count: reads all counters before and after each plan, which costs a process a host.
    """
    clock = clock or Clock()
    fabric = scaled_fabric(fabric, clock.scale)
    scaled = {name: scaled_plan(plan, clock.scale) for name, plan in plans.items()}
    with tempfile.TemporaryDirectory(prefix="gradwire-") as temporary:
        folder = Path(temporary)
        for number, plan in enumerate(scaled.values()):
            plan.save(folder / f"plan-{number}.npz")
        fabric = fabric_for(fabric, list(scaled.values()))
        task = {
            "fabric": fabric.to_json(),
            "plans": len(scaled),
            "iterations": iterations,
            "clock": clock.name,
            "count": count,
        }
        (folder / "replay.json").write_text(
            json.dumps({**task, "sockets": [sockets.buffer_bytes, sockets.unsent_bytes]})
        )
        said: list[str] = []
        names = list(scaled)

        def hear(line: str) -> None:
            said.append(line)
            if line.startswith('{"event": "replayed"'):
                on_plan(names[json.loads(line)["number"]])

        status = run_job("gradwire.run.replay", folder, clock, time_limit_s=TIME_LIMIT_S, on_line=hear)
        if status:
            raise MachineFault(f"the replay failed with status {status}: {_last_words(said)}")
        return {name: _replayed(plan, fabric, folder, number) for number, (name, plan) in enumerate(scaled.items())}


def _replayed(plan: Plan, fabric: Fabric, folder: Path, number: int) -> Replayed:
    noted = json.loads((folder / f"noted-{number}.json").read_text())
    counts = NetworkCounts.from_fields(noted["counts"]) if noted["counts"] else None
    return Replayed(plan, fabric, OpLog.load(folder / f"ops-{number}.npz"), noted["repairs"], counts)


def _last_words(said: list[str]) -> str:
    """The fault that the machine told, or else its last lines."""
    for line in reversed(said):
        if line.startswith('{"event": "fault"'):
            return str(json.loads(line)["message"])
    return "\n".join(said[-10:])


def _replay_all(folder: Path) -> None:
    task = json.loads((folder / "replay.json").read_text())
    fabric = Fabric.from_json(task["fabric"])
    sockets = SocketOptions(*task["sockets"])
    with bench(fabric, sockets, folder, clock=task["clock"], per_host=False, switch_prefix="gr") as ready:
        for number in range(task["plans"]):
            path = folder / f"plan-{number}.npz"
            before = Reading(ready.network) if task["count"] else None
            log, summaries = ready.agents.replay(Plan.load(path), path, task["iterations"], lambda _: None)
            log.save(folder / f"ops-{number}.npz")
            counts = asdict(Reading(ready.network).since(before)) if before else None
            noted = {"repairs": sum(agent.multicast_repairs for agent in summaries), "counts": counts}
            (folder / f"noted-{number}.json").write_text(json.dumps(noted))
            say("replayed", number=number)


if __name__ == "__main__":
    sys.exit(run_inside(_replay_all))
